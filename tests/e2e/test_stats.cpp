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
  const std::vector<Json> requests = of_kind(json_file(dir / "stats.jsonl"), "request");
  const std::vector<Json> summaries = of_kind(json_file(dir / "stats.jsonl"), "summary");
  REQUIRE(requests.size() == found.records.size());
  REQUIRE(summaries.size() == 1);
  CHECK(json_file(dir / "stats.jsonl").back().text("/kind") == "summary");

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

  const Json& summary = summaries[0];
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
                           "total_throughput", "duration", "kv_use_peak", "kv_use_mean",
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
    std::vector<Json> summaries = of_kind(json_file(dir / name), "summary");
    return std::move(summaries.at(0));
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
  const std::vector<Json> summaries = of_kind(json_file(dir / "stats"), "summary");
  REQUIRE(summaries.size() == 1);
  const Json& summary = summaries[0];
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
    std::filesystem::remove(dir / "stats");
    const Answers found = answer(two, {"--stats", dir / "stats", "--prefix-cache", on});
    CHECK((found.err.find("cache hits") != std::string::npos) == (on == std::string("on")));
    int64_t in_requests = 0, in_summary = -1;
    for (const Json& line : json_file(dir / "stats")) {
      if (line.text("/kind") == "summary") {
        in_summary = line.integer("/cached_tokens");
        CHECK(line.integer("/found_tokens") == in_summary);
        CHECK(line.integer("/evicted_blocks") == 0);
      } else {
        in_requests += line.integer("/cached_tokens");
      }
    }
    CHECK(in_requests == in_summary);
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
    for (const std::string& path : {stats, trace}) {
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

TEST_CASE("statistics are appended, run after run") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines());
  for (int i = 1; i <= 2; ++i) {
    CHECK(run({"--input", dir / "in.jsonl", "--overwrite"}).exit_code == 2);
    CHECK(json_file(dir / "in.stats.jsonl").size() == static_cast<size_t>(i) * 11);
  }
  // A line that a crash cut off does not swallow the next one.
  write_file(dir / "in.stats.jsonl", "{\"kind\":\"requ");
  CHECK(run({"--input", dir / "in.jsonl", "--overwrite"}).exit_code == 2);
  const std::string stats = read_file(dir / "in.stats.jsonl");
  CHECK(json_lines(stats.substr(stats.find('\n') + 1)).size() == 11);
}

TEST_CASE("a trace has a line for each step, and they add up to the summary") {
  const TempDir dir;
  const Answers found = answer(lines(), {"--stats", dir / "stats", "--trace", dir / "trace",
                                         "--max-batch-size", "3", "--prefill-chunk-size", "2"});
  const std::vector<Json> steps = json_file(dir / "trace");
  const Json summary = std::move(of_kind(json_file(dir / "stats"), "summary").at(0));
  CHECK(steps.size() == of_kind(json_file(dir / "trace"), "step").size());
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
  CHECK(found.err == "");
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
      feed_until(process, [&] { return process.err().find("tokens/s") != std::string::npos; });
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find('\r') == std::string::npos);
  const std::string first = ended.err.substr(0, ended.err.find('\n'));
  for (const char* word : {"done", "tokens/s", "running", "waiting", "KV"}) {
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
    const size_t table = ended.err.find("requests");
    REQUIRE(table != std::string::npos);
    const bool drawn = ended.err.substr(0, table).find("\r0 done") != std::string::npos ||
                       ended.err.substr(0, table).find(" done, ") != std::string::npos;
    CHECK(drawn == (std::string(progress) == "auto"));
    // The table begins on an empty line: what was drawn is gone.
    CHECK((table == 0 || ended.err[table - 1] == '\r'));
  }
}

}  // namespace pagedinfer
