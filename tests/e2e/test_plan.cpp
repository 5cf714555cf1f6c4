// `pagedinfer plan`: what a run would take.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>

#include "core/refusal.h"
#include "settings/table.h"
#include "settings/values.h"
#include "tests/support/e2e.h"
#include "tests/support/grammar_support.h"
#include "tests/support/sanitized.h"

namespace pagedinfer {
namespace {

Ended plan(const Words& flags, std::string_view input = "") {
  Ended ended = run_program(command(Words{"plan"} + flags), input);
  CAPTURE(ended.err);
  CHECK(!ended.timed_out);
  return ended;
}

Json plan_of(const Words& flags) {
  const Ended ended = plan(flags + Words{"--json"});
  INFO(ended.err);
  REQUIRE(ended.exit_code == 0);
  CHECK(ended.err == "");
  std::vector<Json> lines = json_lines(ended.out);
  REQUIRE(lines.size() == 1);
  return std::move(lines.front());
}

// What a run takes at most, without mapped files.
int64_t planned_bytes(const Json& planned) {
  int64_t bytes =
      planned.integer("/memory/weight_bytes") - planned.integer("/memory/weight_file_bytes");
  for (const char* part : {"kv", "activation", "logits", "workspace", "tokenizer", "forms",
                           "read_ahead", "output", "answers", "threads", "bookkeeping"}) {
    bytes += planned.integer(fmt::format("/memory/{}_bytes", part));
  }
  return bytes;
}

// A line of `count` token ids, the first `same` of which are `head`.
std::string ids_line(int count, int same, int head, int max_tokens) {
  std::string ids;
  for (int i = 0; i < count; ++i) {
    ids += fmt::format("{}{}", i == 0 ? "" : ",", i < same ? head : 20 + (7 * i + count) % 100);
  }
  return fmt::format("{{\"prompt_token_ids\":[{}],\"max_tokens\":{},\"ignore_eos\":true}}\n", ids,
                     max_tokens);
}

std::string planned_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += ids_line(5 + i * 13 % 90, i % 3 == 0 ? 0 : 64, 10 + i % 4, 1 + i * 7 % 40);
  }
  return lines;
}

}  // namespace

TEST_CASE("a plan tells lines, memory, sequences and prefixes, and writes no file") {
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  write_file(file, planned_lines(50) + "{\"prompt\": 7}\n\nnonsense\n");
  const Ended ended = plan({"--input", file, "--kv-memory", "16MiB"});
  CHECK(ended.exit_code == 0);
  CHECK(ended.err == "");
  for (const char* words :
       {"model        story-llama, bfloat16 on cpu", "touches      this input touches at most ",
        "; the cache in bfloat16\n", ": 52 lines, 50 sequences\n",
        "1 will end in an error record, invalid_json\n",
        "1 will end in an error record, invalid_value\n", "weights ", "KV cache ", "activations ",
        "logits ", "workspace ", "tokenizer ", "threads ", "read-ahead ", "output ",
        "15.8 MiB  672 blocks", "contiguous reservations of",
        "tokens of prompts need not be computed", "run --limit 200"}) {
    CHECK_MESSAGE(ended.out.find(words) != std::string::npos, words);
  }
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
  CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl"});
}

TEST_CASE("a plan tells the parameters of a model, and of experts those of a token") {
  const TempDir dir;
  write_file(dir / "in.jsonl", ids_line(5, 0, 0, 3));
  write_file(dir / "config.json", R"({"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 24,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 40, "vocab_size": 200, "max_position_embeddings": 64, "num_experts": 5,
      "num_experts_per_tok": 2, "moe_intermediate_size": 9})");
  const Words flags = {"--model", dir.path(), "--weights", "dummy", "--input", dir / "in.jsonl"};
  const Json planned = plan_of(flags);
  const int64_t all = planned.integer("/parameters"),
                active = planned.integer("/active_parameters");
  CHECK(all - active == 2 * (5 - 2) * 3 * 9 * 24);
  CHECK(plan(flags).out.find(fmt::format("\nparameters   {}, {} of them for a token\n",
                                         grouped(all), grouped(active))) != std::string::npos);
  const Json dense = plan_of({"--input", dir / "in.jsonl"});
  CHECK(dense.integer("/active_parameters") == dense.integer("/parameters"));
}

TEST_CASE("a run takes what its plan tells") {
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  write_file(file, planned_lines(120) + "nonsense\n" + ids_line(900, 0, 0, 200));
  for (const Words& flags :
       {Words{"--num-blocks", "60"}, Words{"--num-blocks", "400", "--prefix-cache", "off"},
        Words{"--num-blocks", "60", "--max-batch-size", "4"},
        Words{"--kv", "contiguous", "--max-model-len", "256", "--kv-memory", "4MiB"}}) {
    const Words all = Words{"--input", file} + flags;
    CAPTURE(fmt::format("{}", fmt::join(flags, " ")));
    const Json planned = plan_of(all);
    const Ended ended = run(
        all + Words{"--output", dir / "out", "--overwrite", "--stats", dir / "stats", "--quiet"});
    CHECK(ended.exit_code == 2);
    const Json summary = summary_beside(dir / "stats");
    std::filesystem::remove(dir / "stats");
    CHECK(planned["/input/failed_by_code"] == summary["/failed_by_code"]);
    CHECK(planned.integer("/input/prompt_tokens") == summary.integer("/total_input_tokens"));
    CHECK(planned.integer("/input/max_completion_tokens") ==
          summary.integer("/total_output_tokens"));
    CHECK(planned.integer("/memory/num_blocks") == summary.integer("/config/num_blocks"));
    CHECK(planned.integer("/memory/kv_bytes") == summary.integer("/config/kv_memory"));
    CHECK(planned.integer("/memory/weight_bytes") == summary.integer("/config/weight_bytes"));
    CHECK(planned.integer("/preemptions") == summary.integer("/preemptions"));
    CHECK(planned.integer("/cached_tokens") == summary.integer("/cached_tokens"));
    CHECK(planned.integer("/sequences_at_once/max") == summary.integer("/running_peak"));
    CHECK(!planned.has("/is_sampled") == false);
  }
}

TEST_CASE("a run's memory without files stays within its plan") {
  if (is_skipped_when_sanitized("sanitizers take memory of their own")) return;
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  std::string lines;
  for (int i = 0; i < 600; ++i) lines += ids_line(200 + i % 300, 0, 0, 3);
  write_file(file, lines);
  for (const Words& flags :
       {Words{"--kv-memory", "64MiB"}, Words{"--model", "story-qwen3", "--dtype", "float32"},
        Words{"--kv-memory", "200MiB", "--max-batch-size", "512", "--max-step-tokens", "4096"}}) {
    const Words all = Words{"--input", file} + flags;
    const int64_t bytes = planned_bytes(plan_of(all));
    const Ended ended =
        run(all + Words{"--output", dir / "out", "--overwrite", "--progress", "on"});
    CHECK(ended.exit_code == 0);
    CHECK(ended.peak_anonymous > int64_t{4} << 20);
    CHECK(ended.peak_anonymous < bytes + (int64_t{64} << 20));
  }
}

TEST_CASE("a plan counts the log probabilities that a line keeps until it ends") {
  if (is_skipped_when_sanitized("sanitizers take memory of their own")) return;
  const TempDir dir;
  const auto line = [](const std::string& asks) {
    return fmt::format(R"({{"prompt":"One day","n":64,"max_tokens":200,"temperature":1,)"
                       R"("ignore_eos":true{}}})",
                       asks);
  };
  write_file(dir / "plain", line(""));
  write_file(dir / "asks", line(R"(,"logprobs":20)"));
  const auto planned = [&](const std::string& file) {
    const Json json = plan_of({"--input", dir / file, "--kv-memory", "8MiB"});
    return json.integer("/memory/answers_bytes");
  };
  const auto taken = [&](const std::string& file) {
    const Ended ended =
        run({"--input", dir / file, "--output", dir / "out", "--overwrite", "--progress", "on"});
    CHECK(ended.exit_code == 0);
    return ended.peak_anonymous;
  };
  const int64_t plain = planned("plain"), asks = planned("asks");
  CHECK(plain < 1 << 20);
  const int64_t more = taken("asks") - taken("plain");
  CHECK(more > 8 << 20);
  CHECK(more <= asks - plain);
}

TEST_CASE("a run with the cache that a plan calls enough takes no other steps") {
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  write_file(file, planned_lines(300));
  const Json json = plan_of({"--input", file});
  const std::string advice = json.text("/advice/0/text");
  const std::string enough = advice.substr(0, advice.find(' '));
  CAPTURE(advice);
  REQUIRE(enough.ends_with("MiB"));
  const Json less = plan_of({"--input", file, "--kv-memory", enough});
  CHECK(less.integer("/memory/kv_bytes") < json.integer("/memory/kv_bytes") / 2);
  CHECK(less.integer("/preemptions") == 0);
  CHECK(less.integer("/cached_tokens") == json.integer("/cached_tokens"));
  CHECK(less["/sequences_at_once"] == json["/sequences_at_once"]);
  CHECK(less.integer("/memory/touched_bytes") <= json.integer("/memory/touched_bytes"));
}

TEST_CASE("a run whose lines have large forms stays within its plan") {
  if (is_skipped_without_grammar()) return;
  if (is_skipped_when_sanitized("sanitizers take memory of their own")) return;
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  std::string lines;
  for (int i = 0; i < 40; ++i) {  // matching them takes much, and compiling the others
    lines += fmt::format(R"({{"prompt":"a","max_tokens":300,"guided_json":{{"type":"string",)"
                         R"("minLength":{}}}}})",
                         9900 + i) +
             "\n";
    if (i % 8 != 0) continue;
    lines += fmt::format(R"({{"prompt":"a","max_tokens":9,"guided_choice":["{}"]}})",
                         std::string(static_cast<size_t>(60'000 + i), 'x')) +
             "\n";
  }
  write_file(file, lines);
  const Words flags = {"--input", file, "--kv-memory", "16MiB"};
  const int64_t bytes = planned_bytes(plan_of(flags));
  const Ended ended = run(flags + Words{"--output", dir / "out", "--progress", "on"});
  CHECK(ended.exit_code == 0);
  CHECK(ended.peak_anonymous < bytes);
}

TEST_CASE("a plan that does not fit is refused before weights are read") {
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  write_file(file, ids_line(9, 0, 0, 4));
  // 6 GB of weights.
  const Words large = {"--input", file, "--model", "llama-3.2-3b-instruct", "--weights", "dummy"};
  for (const char* subcommand : {"plan", "run"}) {
    const Ended ended =
        run_program(command(Words{subcommand} + large + Words{"--num-blocks", "100000000"}));
    CHECK(ended.exit_code == 1);
    CHECK(ended.out == "");
    CHECK(ended.err.starts_with("pagedinfer: --num-blocks: 100000000 blocks"));
    CHECK(ended.peak_memory < int64_t{300} << 20);
  }
  CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl"});
  const Ended sized = plan(large + Words{"--num-blocks", "10"});
  INFO(sized.err);
  if (sized.exit_code != 0) return;  // on a machine with less memory
  CHECK(sized.out.find("112 KiB a token") != std::string::npos);
  CHECK(sized.peak_memory < int64_t{300} << 20);
}

TEST_CASE("a plan plays completions of the tokens that are expected") {
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += ids_line(20 + i, 0, 0, 400);
  write_file(file, lines);
  const Words flags = {"--input", file, "--num-blocks", "100"};
  const Json bound = plan_of(flags);
  const Json expected = plan_of(flags + Words{"--expected-tokens", "20"});
  CHECK(expected.number("/sequences_at_once/mean") > 2 * bound.number("/sequences_at_once/mean"));
  CHECK(expected.integer("/input/max_completion_tokens") == 40 * 400);
}

TEST_CASE("a plan names the flag that is far from the best one") {
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  write_file(file, planned_lines(300));
  const auto flags_advised = [&](const Words& flags) {
    const Json json = plan_of(Words{"--input", file} + flags);
    std::set<std::string> advised;
    for (int i = 0; json.has(fmt::format("/advice/{}", i)); ++i) {
      advised.insert(json.text(fmt::format("/advice/{}/flag", i)));
    }
    return advised;
  };
  using Names = std::set<std::string>;
  CHECK(flags_advised({}) == Names{"--kv-memory"});  // less of it
  CHECK(flags_advised({"--kv-memory", "64MiB"}) == Names{});
  CHECK(flags_advised({"--kv", "contiguous", "--max-batch-size", "200"}) ==
        Names{"--max-model-len", "--prefix-cache"});
  CHECK(flags_advised({"--num-blocks", "50", "--prefix-cache", "off"}) ==
        Names{"--kv-memory", "--kv-dtype", "--prefix-cache"});
  CHECK(flags_advised({"--num-blocks", "50", "--prefix-cache", "off", "--kv-dtype", "int8"}) ==
        Names{"--kv-memory", "--prefix-cache"});
  CHECK(flags_advised({"--num-blocks", "50", "--prefix-cache", "off", "--dtype", "float32"}) ==
        Names{"--kv-memory", "--prefix-cache"});
  CHECK(flags_advised({"--max-batch-size", "10", "--kv-memory", "64MiB"}) ==
        Names{"--max-batch-size"});
  CHECK(flags_advised({"--limit", "100"}) == Names{"--kv-memory"});
  const Words large = {
      "--model", "llama-3.2-1b-instruct", "--weights", "dummy", "--num-blocks", "1000", "--limit",
      "100"};
  CHECK(flags_advised(large) == Names{"--max-batch-size"});
  CHECK(flags_advised({"--prefix-cache", "off"}) == Names{"--kv-memory", "--prefix-cache"});
  CHECK(flags_advised({"--prefill-chunk-size", "8"}) ==
        Names{"--kv-memory", "--prefill-chunk-size"});
  CHECK(flags_advised({"--max-model-len", "60"}).contains("--max-model-len"));
  CHECK(flags_advised({"--num-blocks", "4"}).contains("--kv-memory"));
}

TEST_CASE("a plan ends with a sentence where the input or a flag is wrong") {
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  write_file(file, ids_line(9, 0, 0, 4));
  const auto refuses = [&](const Words& flags, const std::string& words) {
    const Ended ended = plan(flags);
    CAPTURE(ended.err);
    CHECK(ended.exit_code == 1);
    CHECK(ended.out == "");
    CHECK(ended.err.starts_with("pagedinfer: "));
    CHECK(ended.err.find(words) != std::string::npos);
  };
  refuses({}, "--input: found nothing, expected a file of prompts");
  refuses({"--input", dir / "none"}, "none: cannot open");
  refuses({"--input", file, "--expected-tokens", "0"}, "--expected-tokens: found 0, ");
  refuses({"--input", file, "--expected-tokens", "x"}, "--expected-tokens: found x, ");
  refuses({"--input", file, "--expected-token", "4"}, "did you mean --expected-tokens?");
  refuses({"--input", file, "--json=yes"}, "--json takes no value");
  refuses({"--input", file, "--kv", "contiguous", "--num-blocks", "2"}, "--max-model-len");
  refuses({"--input", file, "--prefill-chunk-size", "9", "--chunked-prefill", "off"}, "no chunks");
  write_file(dir / "bad.jsonl.gz", "not gzip");
  refuses({"--input", dir / "bad.jsonl.gz"}, "bad.jsonl.gz");
  write_file(dir / "empty.jsonl", "");
  const Ended empty = plan({"--input", dir / "empty.jsonl"});
  CHECK(empty.exit_code == 0);
  CHECK(empty.out.find(": 0 lines, 0 sequences\n") != std::string::npos);
  // Whatever bytes come, there is a plan.
  std::string hostile("{}\n\xff\xfe\0{}[]\n{\"prompt\":\n{\"prompt_token_ids\":[99999999]}\n", 54);
  hostile += "{\"prompt\":\"" + std::string(1 << 20, 'a') + "\"}\n{\"prompt\":\"b\",\"n\":64}";
  write_file(dir / "hostile.jsonl", hostile);
  const Json json = plan_of({"--input", dir / "hostile.jsonl"});
  CHECK(json.integer("/input/sequences") == 1);
  CHECK(json.integer("/input/lines") == 6);
}

TEST_CASE("whole numbers as large as flags take them end in a plan or in a sentence") {
  const TempDir dir;
  const std::string file = dir / "in.jsonl";
  write_file(file, ids_line(9, 0, 0, 4));
  const auto is_clean = [&](const Words& flags) {
    const Ended ended = plan(Words{"--input", file} + flags);
    CAPTURE(fmt::format("{}", fmt::join(flags, " ")));
    CAPTURE(ended.err);
    CHECK((ended.exit_code == 0 || ended.exit_code == 1));
    CHECK(ended.err.find("runtime error") == std::string::npos);  // a sanitizer's words
    if (ended.exit_code == 1) CHECK(ended.err.starts_with("pagedinfer: "));
    return ended.exit_code == 0;
  };
  std::vector<Words> largest;
  Words together, of_a_cache_that_fits;
  for (const Setting& setting : kSettings) {
    const auto* const range = std::get_if<IntegerRange>(&setting.range);
    if (range == nullptr || !setting.is_flag) continue;
    largest.push_back({flag_of(setting), std::to_string(range->to)});
    is_clean(largest.back());
    if (setting.key != "kv_memory") together = together + largest.back();
    const bool sizes = setting.key == "num_blocks" || setting.key == "max_model_len";
    if (setting.key != "kv_memory" && !sizes) {
      of_a_cache_that_fits = of_a_cache_that_fits + largest.back();
    }
    const bool is_of_steps = setting.group == Group::kCache || setting.group == Group::kScheduling;
    if (!is_of_steps) continue;
    for (const Words& whole : {Words{"--chunked-prefill", "off"}, Words{"--batching", "static"}}) {
      is_clean(largest.back() + whole);
      is_clean(largest.back() + whole + Words{"--max-batch-size", "2147483647"});
    }
  }
  CHECK(largest.size() > 10);
  is_clean(together);
  is_clean(of_a_cache_that_fits);
  CHECK(is_clean({"--max-prefill-chunks", "2147483647", "--prefill-chunk-size", "2147483647",
                  "--max-tokens", "2147483647"}));
}

TEST_CASE("a plan reads a pipe, and a signal ends it") {
  const Ended piped = plan({"--input", "-"}, planned_lines(20));
  CHECK(piped.exit_code == 0);
  CHECK(piped.out.find(" standard input: 20 lines, 20 sequences\n") != std::string::npos);
  Process waiting(command({"plan", "--input", "-"}));
  waiting.write("{\"prompt\": \"a\"}\n");
  usleep(300'000);
  waiting.send(SIGINT);
  CHECK(waiting.wait().exit_code == 130);
}

}  // namespace pagedinfer
