// `pagedinfer bench`: a workload is made, run and measured.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <string>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

const Words kTiny = {"--requests", "5", "--prompt-tokens", "4-20", "--output-tokens", "3-9"};

Ended bench(const std::string& workload, const Words& flags) {
  Ended ended = run_program(command(Words{"bench", "--workload", workload} + flags));
  CAPTURE(ended.err);
  CHECK(!ended.timed_out);
  return ended;
}

Json result_of(const std::string& path) {
  std::vector<Json> lines = json_file(path);
  REQUIRE(lines.size() == 1);
  return std::move(lines.front());
}

// CHECKs that the command line is refused with a message that has these words.
void refuses(const Words& flags, const Words& words) {
  const Ended ended = run_program(command(Words{"bench"} + flags));
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 1);
  CHECK(ended.out == "");
  CHECK(ended.err.starts_with("pagedinfer: "));
  for (const std::string& word : words) {
    CHECK_MESSAGE(ended.err.find(word) != std::string::npos, "expected in the message: ", word);
  }
}

}  // namespace

TEST_CASE("bench runs a workload, prints the table and appends a line of results") {
  const TempDir dir;
  const std::string results = dir / "r.jsonl";
  const Words flags = kTiny + Words{"--seed", "3", "--max-batch-size", "2", "--results", results};
  const Ended ended = bench("random", flags);
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("requests     5 completed\n") != std::string::npos);
  CHECK(ended.err.find("workload     random, 5 requests, seed 3, all at once\n") !=
        std::string::npos);
  CHECK(ended.err.find("p99 rests on 5 requests") != std::string::npos);
  const Json result = result_of(results);
  for (const char* key : {"/commit", "/machine/processor", "/command", "/version"}) {
    CHECK(result.text(key) != "");
  }
  CHECK(result.text("/command").find("bench --workload random --requests 5") != std::string::npos);
  CHECK(result["/workload"] ==
        R"({"name":"random","seed":3,"requests":5,"prompt_tokens":[4,20],"output_tokens":[3,9],)"
        R"("rate":0,"clipped":0})");
  CHECK(result.integer("/config/max_batch_size") == 2);
  CHECK(result.text("/config/seed") == "3");
  CHECK(!result.has("/config/input"));
  CHECK(!result.has("/config/output"));
  CHECK(result.integer("/summary/completed") == 5);
  CHECK(result.integer("/summary/running_peak") == 2);
  CHECK(result.has("/summary/p99_ttft_ms"));
  CHECK(names_in(dir.path()) == std::set<std::string>{"r.jsonl"});
  CHECK(bench("random", flags).exit_code == 0);
  CHECK(json_file(results).size() == 2);
}

TEST_CASE("bench runs the file that it emits") {
  const TempDir dir;
  const std::string file = dir / "w.jsonl";
  const Ended emitted = bench("paged_attention", kTiny + Words{"--emit", file});
  CHECK(emitted.exit_code == 0);
  CHECK(emitted.err.find("completed") == std::string::npos);
  CHECK(names_in(dir.path()) == std::set<std::string>{"w.jsonl"});
  CHECK(bench("paged_attention", kTiny + Words{"--output", dir / "bench"}).exit_code == 0);
  CHECK(run({"--input", file, "--output", dir / "run", "--quiet"}).exit_code == 0);
  CHECK(read_file(dir / "bench") == read_file(dir / "run"));
  const std::vector<Json> lines = json_file(file), records = json_file(dir / "run");
  REQUIRE(records.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(records[i]["/id"] == lines[i]["/id"]);
    CHECK(records[i].text("/id") == fmt::format("paged_attention-{}", i));
    CHECK(records[i].integer("/completion_tokens") == lines[i].integer("/max_tokens"));
    CHECK(records[i].integer("/prompt_tokens") ==
          static_cast<int64_t>(lines[i].integers("/prompt_token_ids").size()));
  }
}

TEST_CASE("bench times operations as run does") {
  const TempDir dir;
  const std::string stats = dir / "stats";
  const Ended ended = bench("random", kTiny + Words{"--profile", "--stats", stats});
  CHECK(ended.exit_code == 0);
  CHECK(summary_beside(stats)["/profile/ops"].find("matmul") != std::string::npos);
}

TEST_CASE("bench replaces no file that is there") {
  const TempDir dir;
  const std::string file = dir / "w.jsonl", output = dir / "out";
  write_file(file, "old\n");
  write_file(output, "old\n");
  const Ended refused = bench("random", kTiny + Words{"--emit", file});
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find(file + ": the file exists; --overwrite replaces it") != std::string::npos);
  CHECK(bench("random", kTiny + Words{"--output", output}).exit_code == 1);
  CHECK(read_file(file) == "old\n");
  CHECK(read_file(output) == "old\n");
  CHECK(bench("random", kTiny + Words{"--emit", file, "--overwrite"}).exit_code == 0);
  CHECK(json_file(file).size() == 5);
}

TEST_CASE("one after the other is a batch of one, unless a batch is given") {
  const TempDir dir;
  const std::string one = dir / "one", two = dir / "two";
  CHECK(bench("baseline", kTiny + Words{"--quiet", "--results", one}).exit_code == 0);
  CHECK(result_of(one).integer("/summary/running_peak") == 1);
  CHECK(bench("baseline", kTiny + Words{"--results", two, "--max-batch-size", "2"}).exit_code == 0);
  CHECK(result_of(two).integer("/summary/running_peak") == 2);
}

TEST_CASE("workloads with arrivals emit times, and a rate of 0 leaves them out") {
  const TempDir dir;
  bench("continuous_batching", kTiny + Words{"--emit", dir / "a"});
  bench("continuous_batching", kTiny + Words{"--emit", dir / "b", "--rate", "8"});
  bench("continuous_batching", kTiny + Words{"--emit", dir / "c", "--rate", "0"});
  const std::vector<Json> a = json_file(dir / "a"), b = json_file(dir / "b"),
                          c = json_file(dir / "c");
  CHECK(a[0].number("/arrival_s") == 0);
  for (size_t i = 1; i < 5; ++i) {
    CHECK(a[i].number("/arrival_s") > a[i - 1].number("/arrival_s"));
    CHECK(a[i].number("/arrival_s") ==
          doctest::Approx(2 * b[i].number("/arrival_s")).epsilon(1e-4));
    CHECK(!c[i].has("/arrival_s"));
  }
}

TEST_CASE("a load is a rate: the share of what the same workload does at once") {
  const TempDir dir;
  const Ended ended = bench("random", kTiny + Words{"--load", "0.5", "--emit", dir / "w"});
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("50.0 % of the ") != std::string::npos);
  const std::vector<Json> lines = json_file(dir / "w");
  REQUIRE(lines.size() == 5);
  CHECK(lines[4].number("/arrival_s") > 0);
  CHECK(lines[4].number("/arrival_s") < 60);
}

TEST_CASE("requests arrive by the rate, and are answered as if they were all there at once") {
  const TempDir dir;
  const Words flags = kTiny + Words{"--emit", dir / "w", "--results", dir / "r", "--quiet"};
  CHECK(bench("continuous_batching", flags + Words{"--rate", "20", "--output", dir / "a"})
            .exit_code == 0);
  const double last = json_file(dir / "w").back().number("/arrival_s");
  CHECK(last > 0.02);
  const Json result = result_of(dir / "r");
  CHECK(result.number("/summary/duration") > 0.99 * last);
  CHECK(result.number("/workload/rate") == 20);
  CHECK(
      bench("continuous_batching", kTiny + Words{"--rate", "0", "--output", dir / "b"}).exit_code ==
      0);
  CHECK(read_file(dir / "a") == read_file(dir / "b"));
}

TEST_CASE("a load is a share of the first configuration's capacity, for all that are compared") {
  const TempDir dir;
  const Words flags = {"--load",  "0.5", "--emit",    dir / "w",    "--results",        dir / "r",
                       "--pairs", "1",   "--compare", "--kv paged", "--batching static"};
  const Ended ended = bench("random", kTiny + flags);
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 0);
  const Json result = result_of(dir / "r");
  const double rate = result.number("/workload/rate");
  CHECK(rate == doctest::Approx(0.5 * result.number("/workload/capacity")).epsilon(1e-4));
  const double last = json_file(dir / "w").back().number("/arrival_s");
  for (const char* i : {"0", "1"}) {
    const std::string key = fmt::format("/configurations/{}/summary/duration", i);
    CHECK(result.number(key) > 0.99 * last);
  }
}

TEST_CASE("a trace is clipped to the model's length") {
  const TempDir dir;
  write_file(dir / "t.csv",
             "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.5,40,4\n"
             "2023-11-16 18:17:05.5,9000,8\n2023-11-16 18:17:07.5,7,3\n");
  const Words flags = {"--trace-csv",  dir / "t.csv", "--requests",      "3", "--emit", dir / "w",
                       "--time-scale", "0.5",         "--max-model-len", "64"};
  const Ended ended = bench("trace", flags);
  CAPTURE(ended.err);
  CHECK(ended.err.find("requests clipped to fit --max-model-len: 1\n") != std::string::npos);
  const std::vector<Json> lines = json_file(dir / "w");
  REQUIRE(lines.size() == 3);
  const std::vector<size_t> lengths = {40, 56, 7};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(lines[i].integers("/prompt_token_ids").size() == lengths[i]);
    CHECK(lines[i].number("/arrival_s") == doctest::Approx(static_cast<double>(i)));
  }
}

TEST_CASE("bench leaves no temporary file behind, interrupted or not") {
  const TempDir dir;
  const Words in_dir = Words{"/usr/bin/env", "TMPDIR=" + dir.path()} +
                       command({"bench", "--workload", "random", "--num-blocks", "512"});
  CHECK(run_program(in_dir + kTiny).exit_code == 0);
  CHECK(names_in(dir.path()).empty());
  const auto is_running = [&] {
    for (const std::string& name : names_in(dir.path())) {
      if (std::filesystem::exists(dir / (name + "/completions.jsonl.part"))) return true;
    }
    return false;
  };
  for (const Words& more : {Words{}, Words{"--compare", "--kv paged", "--kv contiguous"}}) {
    Process process(in_dir + Words{"--requests", "20000"} + more, Process::Stderr::kPipe,
                    std::chrono::seconds(60));
    REQUIRE(process.wait_until(is_running));
    process.send(SIGINT);
    const Ended ended = process.wait();
    CAPTURE(ended.err);
    CHECK(ended.exit_code == 130);
    CHECK(ended.err.find("--resume") == std::string::npos);  // there is nothing to go on with
    CHECK(names_in(dir.path()).empty());
  }
}

TEST_CASE("configurations that are compared have the same completions") {
  const TempDir dir;
  const std::string results = dir / "r.jsonl", steps = dir / "steps.jsonl";
  const Words compare = {"--num-blocks",     "24",
                         "--compare",        "--kv contiguous --max-model-len 64",
                         "--kv 'paged'",     "--block-size=1 --num-blocks 100",
                         "--pairs",          "2",
                         "--max-batch-size", "4",
                         "--results",        results,
                         "--trace",          steps};
  const Ended ended = bench("random", kTiny + compare);
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 0);
  for (const char* row :
       {"1            --kv contiguous --max-model-len 64\n",
        "medians of 2            1           2",
        "2 over 1           median        mean  95 % interval\n", "3 over 1 ",
        "completions  the same in all runs\n", "round 2 of 2, configuration 3: "}) {
    CHECK_MESSAGE(ended.err.find(row) != std::string::npos, row);
  }
  const Json result = result_of(results);
  CHECK(result["/same_completions"] == "true");
  CHECK(result.integer("/pairs") == 2);
  CHECK(result.integer("/workload/requests") == 5);
  CHECK(result.text("/configurations/0/flags") == "--kv contiguous --max-model-len 64");
  CHECK(result.text("/configurations/0/config/kv") == "contiguous");
  CHECK(result.text("/configurations/1/config/kv") == "paged");
  CHECK(result.integer("/configurations/1/config/block_size") == 16);
  CHECK(result.integer("/configurations/2/config/block_size") == 1);
  CHECK(result.integer("/configurations/2/config/max_batch_size") == 4);
  CHECK(result.integer("/configurations/2/summary/completed") == 5);
  CHECK(!result.has("/configurations/3"));
  CHECK(result.integer("/ratios/0/of") == 1);
  CHECK(result.text("/ratios/0/figure") == "duration");
  CHECK(result.number("/ratios/0/mean_95/0") <= result.number("/ratios/0/mean_95/1"));
  CHECK(result.number("/ratios/0/mean_95/1") <= result.number("/ratios/0/mean_95/2"));
  std::set<std::string> runs;  // the measured ones
  for (const Json& step : json_file(steps)) runs.insert(step.text("/run_id"));
  CHECK(runs.size() == 6);
}

TEST_CASE("completions that need not be the same are not compared") {
  const Ended ended = bench("random", kTiny + Words{"--record-timing", "--pairs", "1", "--compare",
                                                    "--kv paged", "--kv contiguous"});
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("completions  may differ; not compared\n") != std::string::npos);
}

TEST_CASE("caches of several types are compared, without a promise of the same completions") {
  const Ended ended =
      bench("random", kTiny + Words{"--pairs", "1", "--kv-memory", "1MiB", "--compare",
                                    "--kv-dtype auto", "--kv-dtype int8", "--kv-dtype float16"});
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("completions  may differ; not compared\n") != std::string::npos);
}

TEST_CASE("a comparison in which requests fail is none") {
  const Ended ended =
      bench("random", kTiny + Words{"--compare", "--kv paged", "--block-size 1 --num-blocks 2"});
  CHECK(ended.exit_code == 1);
  CHECK(ended.err.find("configuration 2 (--block-size 1 --num-blocks 2): ") != std::string::npos);
  CHECK(ended.err.find("expected none") != std::string::npos);
}

TEST_CASE("a comparison of what cannot be compared is refused") {
  const Words random = {"--workload", "random"};
  refuses(random + Words{"--compare"}, {"--compare: found no configuration"});
  refuses(random + Words{"--compare", "--kv paged"}, {"--compare: found one configuration"});
  refuses(random + Words{"--compare", "--kv", "paged"}, {"--kv: expected a value; ", "quotes"});
  refuses(random + Words{"--compare", "--kv pages", ""}, {"'--kv pages': --kv: found pages, "});
  refuses(random + Words{"--compare", "--kw paged", ""}, {"did you mean --kv?"});
  refuses(random + Words{"--compare", "--kv 'paged", ""}, {"the quote ' does not end"});
  refuses(random + Words{"--compare", "--dtype float32", ""}, {"--dtype: ", "before --compare"});
  refuses(random + Words{"--compare", "--kv paged --kv paged", ""}, {"given 2 times"});
  refuses(random + Words{"--output", "x", "--compare", "", ""}, {"--output: --compare runs"});
  refuses(random + Words{"--profile", "--compare", "", ""}, {"--profile: --compare runs"});
  refuses(random + Words{"--pairs", "5"}, {"--pairs: ", "--compare"});
  refuses(random + Words{"--compare", "--kv paged", "--batching static --kv paged"},
          {"--kv paged: static batching"});
}

TEST_CASE("bench refuses what it cannot do, and says what to do instead") {
  refuses({}, {"--workload: expected one of baseline, continuous_batching"});
  refuses({"--workload", "paged_atention"}, {"did you mean paged_attention?"});
  refuses({"--workload", "frob"}, {"--workload: found frob, expected one of baseline, "});
  refuses({"--workload", "random", "--input", "x"}, {"--input: ", "--emit"});
  refuses({"--workload", "random", "-i", "x"}, {"-i: ", "--emit"});
  refuses({"--workload", "random", "--limit=5"}, {"--limit: use --requests"});
  refuses({"--workload", "random", "--max-tokens", "5"}, {"--max-tokens: ", "--output-tokens"});
  refuses({"--workload", "random", "--shard", "0/2"}, {"--shard: "});
  refuses({"--workload", "random", "--resume"}, {"--resume: "});
  refuses({"--workload", "random", "--prompt-token", "5"}, {"did you mean --prompt-tokens?"});
  refuses({"--workload", "random", "--prompt-tokens", "9-5"}, {"--prompt-tokens: found 9-5, "});
  refuses({"--workload", "random", "--prompt-tokens", "0-5"}, {"--prompt-tokens: found 0-5, "});
  refuses({"--workload", "random", "--requests", "0"},
          {"--requests: found 0, expected an integer"});
  refuses({"--workload", "random", "--rate", "-1"}, {"--rate: found -1, "});
  refuses({"--workload", "random", "--rate", "1", "--load", "1"}, {"--rate and --load"});
  refuses({"--workload", "random", "--seed", "x"},
          {"--seed: found x, expected an integer of 64 bits"});
  refuses({"--workload", "random", "--trace-csv", "x"}, {"--trace-csv: ", "use --workload trace"});
  refuses({"--workload", "random", "--head-tokens", "5"}, {"--head-tokens: ", "--heads N"});
  refuses({"--workload", "random", "--long-tokens", "5"}, {"--long-tokens: ", "--long-every N"});
  refuses({"--workload", "trace"}, {"--trace-csv FILE"});
  refuses({"--workload", "trace", "--trace-csv", "x", "--heads", "2"}, {"leave --prompt-tokens, "});
  refuses({"--workload", "trace", "--trace-csv", "x", "--time-scale", "2", "--load", "1"},
          {"--time-scale and --load"});
  refuses({"--workload", "trace", "--trace-csv", "/nowhere/x"}, {"/nowhere/x: No such file"});
  refuses({"--workload", "random", "--results", "/nowhere/x"}, {"/nowhere/x"});
  refuses({"--workload", "random", "--kv", "contiguous", "--prefix-cache", "on"},
          {"--prefix-cache on"});
}

}  // namespace pagedinfer
