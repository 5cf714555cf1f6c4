// What a run tells about itself.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

// Ten lines, two of which fail.
std::string lines() {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    text += R"({"id": "r)" + std::to_string(i) +
            R"(", "prompt": "Nora has", "ignore_eos": true, )" + R"("max_tokens": )" +
            std::to_string(1 + i) + "}\n";
  }
  return text + "{\n" + R"({"id": "r9", "prompt": ""})" + "\n";
}

int64_t sum(const std::vector<Json>& all, const char* pointer) {
  int64_t total = 0;
  for (const Json& line : all) total += line.has(pointer) ? line.integer(pointer) : 0;
  return total;
}

}  // namespace

TEST_CASE("statistics have a line for each record and a summary that adds up") {
  const TempDir dir;
  const Answers found = answer(lines(), {"--stats", dir / "stats.jsonl"});
  CHECK(found.exit_code == 2);
  const std::vector<Json> requests = json_file(dir / "stats.jsonl");
  REQUIRE(requests.size() == found.records.size());

  std::map<int64_t, const Json*> by_index;
  for (const Json& request : requests) by_index[request.integer("/index")] = &request;
  CHECK(by_index.size() == requests.size());
  for (const Json& record : found.records) {
    const Json& request = *by_index.at(record.integer("/index"));
    CHECK(request["/id"] == record["/id"]);
    if (record.has("/error")) {
      CHECK(request["/error"] == record["/error/code"]);
      CHECK(request["/completion_tokens"] == "0");
      continue;
    }
    CHECK(request["/prompt_tokens"] == record["/prompt_tokens"]);
    CHECK(request["/completion_tokens"] == record["/completion_tokens"]);
    CHECK(request.integer("/preemptions") >= 0);
    const bool has_gaps = record.integer("/completion_tokens") > 1;
    for (const char* name : {"/tpot_ms", "/itl_p50_ms", "/itl_p99_ms", "/itl_max_ms"}) {
      CAPTURE(name);
      CHECK(has_gaps == (request[name] != "null"));
      if (has_gaps) CHECK(request.number(name) > 0);
    }
    CHECK(request.number("/queue_ms") >= 0);
    CHECK(request.number("/ttft_ms") > 0);
    CHECK(request.number("/e2e_ms") >= request.number("/ttft_ms"));
  }

  const Json summary = summary_beside(dir / "stats.jsonl");
  CHECK(summary.integer("/completed") == 8);
  CHECK(summary.integer("/failed") == 2);
  CHECK(summary.integer("/failed_by_code/invalid_json") == 1);
  CHECK(summary.integer("/failed_by_code/empty_prompt") == 1);
  CHECK(summary.integer("/total_output_tokens") == 36);
  CHECK(summary.integer("/total_output_tokens") == sum(requests, "/completion_tokens"));
  CHECK(summary.integer("/total_input_tokens") == sum(requests, "/prompt_tokens"));
  CHECK(summary.integer("/prefill_tokens") + summary.integer("/decode_tokens") ==
        summary.integer("/step_tokens"));
  CHECK(summary.text("/model") == bundled_model());
  CHECK(summary.text("/device").starts_with("cpu"));
  for (const char* name : {"request_throughput", "input_throughput", "output_throughput",
                           "total_token_throughput", "duration", "kv_use_peak", "kv_use_mean",
                           "kv_slot_utilization", "steps", "time_total_s", "time_load_s"}) {
    CAPTURE(name);
    CHECK(summary.number(std::string("/") + name) > 0);
  }
  for (const std::string name : {"ttft", "tpot", "itl", "e2el"}) {
    CAPTURE(name);
    const auto at = [&](const std::string& what) {
      return summary.number("/" + what + "_" + name + "_ms");
    };
    CHECK(at("mean") > 0);
    CHECK(at("p50") == at("median"));
    CHECK(at("p50") <= at("p90"));
    CHECK(at("p90") <= at("p99"));
    CHECK(at("p99") <= at("max"));
    CHECK(at("std") <= at("max"));
  }
}

TEST_CASE("in the summary a list is a list, and null what was not given") {
  const TempDir dir;
  const auto config = [&](const std::string& name, const Words& flags) {
    answer("{\"prompt\": \"Nora\", \"max_tokens\": 1}\n", Words{"--stats", dir / name} + flags);
    return summary_beside(dir / name);
  };
  const Json none = config("none", {});
  const Json given = config("given", {"--stop", "a,\"b", "--stop", "c", "--stop-token-ids", "5,6",
                                      "--trace", dir / "trace", "--system", ""});
  for (const char* key : {"stop", "stop_token_ids", "trace", "system"}) {
    CAPTURE(key);
    CHECK(none[fmt::format("/config/{}", key)] == "null");
  }
  CHECK(given["/config/stop"] == R"(["a,\"b","c"])");
  CHECK(given["/config/stop_token_ids"] == "[5,6]");
  CHECK(given.text("/config/trace") == dir / "trace");
  CHECK(given.text("/config/system") == "");
}

TEST_CASE("the summary holds the configuration, given and derived") {
  const TempDir dir;
  answer(lines(), {"--stats", dir / "stats", "--batching", "static", "--max-batch-size", "3",
                   "--max-model-len", "100", "--seed", "18446744073709551615", "--threads", "2"});
  const Json summary = summary_beside(dir / "stats");
  CHECK(summary.text("/config/batching") == "static");
  CHECK(summary.text("/config/kv") == "contiguous");
  CHECK(summary["/config/chunked_prefill"] == "false");
  CHECK(summary.integer("/config/max_batch_size") == 3);
  CHECK(summary.integer("/config/max_model_len") == 100);
  CHECK(summary.integer("/config/max_step_tokens") == 103);
  CHECK(summary.integer("/config/threads") == 2);
  CHECK(summary["/config/seed"].find("18446744073709551615") != std::string::npos);
  CHECK(summary["/config/include_stop_str_in_output"] == "false");
  CHECK(summary["/config/skip_special_tokens"] == "true");
  // What was switched off is said, there and on standard error.
  CHECK(summary["/notes"].find("kv is contiguous") != std::string::npos);
  CHECK(summary["/notes"].find("chunked_prefill is off") != std::string::npos);
}

TEST_CASE("what the prefix cache saves is told, of each request and in all") {
  const TempDir dir;
  const std::string prompt =
      "Once upon a time there was a little girl who had a red ball and a dog";
  std::string two;
  for (const char* end : {"and", "or"}) {
    two += R"({"prompt":")" + prompt + " " + end + R"(","max_tokens":4})" + "\n";
  }
  const auto told = [&](const char* on) {
    const Answers found = answer(two, {"--stats", dir / "stats", "--prefix-cache", on});
    CHECK((found.err.find("cache hits") != std::string::npos) == (on == std::string("on")));
    const Json summary = summary_beside(dir / "stats");
    const int64_t in_summary = summary.integer("/cached_tokens");
    CHECK(summary.integer("/found_tokens") == in_summary);
    CHECK(summary.integer("/evicted_blocks") == 0);
    CHECK(sum(json_file(dir / "stats"), "/cached_tokens") == in_summary);
    return in_summary;
  };
  CHECK(told("on") >= 16);
  CHECK(told("on") % 16 == 0);
  CHECK(told("off") == 0);
}

TEST_CASE("every line of a run's statistics names the run, and no other run has the name") {
  const TempDir dir;
  std::set<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    const std::string stats = dir / ("stats" + std::to_string(i)), trace = dir / "trace";
    answer(lines(), {"--stats", stats, "--trace", trace, "--profile"});
    for (const std::string& path : {stats, trace, stats + ".summary.json"}) {
      std::string last;
      for (const Json& line : json_file(path)) {
        ids.insert(line.text("/run_id"));
        const std::string time = line.text("/time");
        CHECK(std::regex_match(time, std::regex(R"(20\d\d-\d\d-\d\dT[\d:]{8}\.\d{3}Z)")));
        CHECK(last <= time);
        last = time;
      }
    }
    CHECK(ids.size() == static_cast<size_t>(i) + 1);
  }
}

TEST_CASE("a new output begins new statistics, and a resumed one goes on with them") {
  const TempDir dir;
  const std::string stats = dir / "in.stats.jsonl", trace = dir / "trace";
  const auto run_it = [&](int count, const char* how) {
    write_file(dir / "in.jsonl", uneven_lines(count));
    CHECK(run({"--input", dir / "in.jsonl", "--trace", trace, how}).exit_code == 0);
    return std::pair(json_file(stats).size(), summary_beside(stats));
  };
  const size_t num_steps = [&] {
    CHECK(run_it(5, "--overwrite").first == 5);
    return json_file(trace).size();
  }();
  CHECK(run_it(5, "--overwrite").first == 5);
  CHECK(json_file(trace).size() == num_steps);
  const auto [num_lines, summary] = run_it(8, "--resume");
  CHECK(num_lines == 8);
  CHECK(json_file(trace).size() > num_steps);
  CHECK(summary.integer("/completed") == 3);
  CHECK(summary.integer("/resumed") == 5);
  // A line that a crash cut off does not swallow the next one.
  write_file(stats, read_file(stats) + "{\"run_id");
  write_file(dir / "in.jsonl", uneven_lines(9));
  CHECK(run({"--input", dir / "in.jsonl", "--resume"}).exit_code == 0);
  const std::string text = read_file(stats);
  CHECK(text.find("{\"run_id\n{\"run_id\"") != std::string::npos);
}

TEST_CASE("lines of statistics are rows of one table: the same keys, and no lists or objects") {
  const TempDir dir;
  answer(lines(), {"--stats", dir / "stats", "--trace", dir / "trace"});
  for (const char* name : {"stats", "trace"}) {
    std::set<std::string> keys;
    for (const Json& line : json_file(dir / name)) {
      // All that stands before a colon; ids of these lines have none.
      const std::regex key(R"re("(\w+)":)re");
      std::string found;
      const std::string text(line.line());
      for (std::sregex_iterator at(text.begin(), text.end(), key), end; at != end; ++at) {
        found += (*at)[1].str() + " ";
      }
      keys.insert(found);
      CHECK(text.find_first_of("{[", 1) == std::string::npos);
    }
    CHECK(keys.size() == 1);
  }
}

TEST_CASE("where statistics cannot stand beside the output a note says so") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines());
  for (const char* name : {"out.stats.jsonl", "out.summary.json"}) {
    CAPTURE(name);
    std::filesystem::create_directory(dir / name);
    const Ended ended =
        run({"--input", dir / "in.jsonl", "--output", dir / "out.jsonl", "--quiet"});
    CHECK(ended.exit_code == 2);
    CHECK(ended.err.find("note: " + dir / name +
                         ": cannot open for writing: Is a directory; the run goes on "
                         "without these measurements\n") != std::string::npos);
    CHECK(ended.err.ends_with("\n" + last_line(8, 2)));
    CHECK(json_file(dir / "out.jsonl").size() == 10);
    for (const char* made : {"out.jsonl", "out.jsonl.run", "out.stats.jsonl", "out.summary.json"}) {
      std::filesystem::remove(dir / made);
    }
  }
}

TEST_CASE("a trace has a line for each step, and they add up to the summary") {
  const TempDir dir;
  const Answers found = answer(lines(), {"--stats", dir / "stats", "--trace", dir / "trace",
                                         "--max-batch-size", "3", "--prefill-chunk-size", "2"});
  const std::vector<Json> steps = json_file(dir / "trace");
  const Json summary = summary_beside(dir / "stats");
  CHECK(steps.size() == json_file(dir / "trace").size());
  CHECK(static_cast<int64_t>(steps.size()) == summary.integer("/steps"));
  CHECK(sum(steps, "/tokens") == summary.integer("/step_tokens"));
  CHECK(sum(steps, "/prefill_tokens") == summary.integer("/prefill_tokens"));
  CHECK(sum(steps, "/decode_tokens") == summary.integer("/decode_tokens"));
  CHECK(sum(steps, "/sampled") == summary.integer("/total_output_tokens"));
  CHECK(sum(steps, "/admitted") == 8);
  for (const Json& step : steps) {
    CHECK(step.integer("/running") <= 3);
    CHECK(step.integer("/prefill_tokens") + step.integer("/decode_tokens") ==
          step.integer("/tokens"));
    CHECK(step.integer("/blocks_used") > 0);
    CHECK(step.number("/end_s") >= step.number("/begin_s"));
    CHECK(step.has("/waiting"));
  }
}

TEST_CASE("times stand in the records when asked for and change nothing else") {
  const Answers plain = answer(lines());
  const Answers timed = answer(lines(), {"--record-timing"});
  for (const Json& record : timed.records) CHECK(record.has("/timing") == !record.has("/error"));
  const std::regex timing(R"re(,"(timing|prompt_tokens_details)":\{[^}]*\})re");
  CHECK(std::regex_replace(timed.out, timing, "") == plain.out);
  CHECK(timed.records[0].number("/timing/e2e_ms") > 0);
}

TEST_CASE("a quiet run says nothing but errors") {
  const Answers found = answer(R"({"prompt": "Nora", "max_tokens": 1, "strange": 1})"
                               "\n",
                               {"--quiet"});
  CHECK(found.exit_code == 0);
  CHECK(found.err == last_line(1));
  CHECK(found.out == answer(R"({"prompt": "Nora", "max_tokens": 1})"
                            "\n")
                         .out);
  CHECK(run({"--quiet", "--input", "/nonexistent"}).err.find("/nonexistent") != std::string::npos);
}

namespace {

// Feeds a run line by line until `condition` or its end, then ends the input.
Ended feed_until(Process& process, const std::function<bool()>& condition) {
  const auto begin = std::chrono::steady_clock::now();
  for (bool met = false;
       !met && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60);) {
    process.write(R"({"prompt": "Nora", "max_tokens": 2})"
                  "\n");
    const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    process.wait_until([&] { return std::chrono::steady_clock::now() > later; });
    met = condition();
  }
  process.close_input();
  return process.wait();
}

}  // namespace

TEST_CASE("progress that no terminal shows is plain lines") {
  Process process(command({"run", "--input", "-", "--progress", "on"}));
  const Ended ended =
      feed_until(process, [&] { return process.err().find("tok/s") != std::string::npos; });
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find('\r') == std::string::npos);
  const size_t rate = ended.err.find("tok/s"), begin = ended.err.rfind('\n', rate) + 1;
  const std::string first = ended.err.substr(begin, ended.err.find('\n', rate) - begin);
  for (const char* word : {"tok/s  story-llama", "running", "KV"}) {
    CHECK_MESSAGE(first.find(word) != std::string::npos, first);
  }
}

TEST_CASE("progress on a terminal is one line that is drawn again") {
  for (const char* progress : {"auto", "off"}) {
    CAPTURE(progress);
    Process process(command({"run", "--input", "-", "--progress", progress}),
                    Process::Stderr::kTerminal);
    int num_fed = 0;
    const Ended ended = feed_until(process, [&] { return ++num_fed > 4; });
    CHECK(ended.exit_code == 0);
    const size_t table = ended.err.find("model  ");
    REQUIRE(table != std::string::npos);
    const bool drawn = ended.err.substr(0, table).find(" tok/s  story-llama") != std::string::npos;
    CHECK(drawn == (std::string(progress) == "auto"));
    // The table begins on an empty line: what was drawn is gone.
    REQUIRE(table > 0);
    CHECK(ended.err[table - 1] == (drawn ? '\r' : '\n'));
  }
}

TEST_CASE("records that go to a terminal share no line with progress") {
  const Words in_terminal = {"/bin/sh", "-c", "exec \"$0\" \"$@\" >&2"};
  Process process(in_terminal + command({"run", "--input", "-"}), Process::Stderr::kTerminal);
  int num_fed = 0;
  const Ended ended = feed_until(process, [&] { return ++num_fed > 4; });
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("{\"id\"") != std::string::npos);
  CHECK(ended.err.find(" tok/s  story-llama") == std::string::npos);
}

}  // namespace pagedinfer
