#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "ops/cuda/cuda_ops.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace pagedinfer {
namespace {

// The program with words that stand between spaces; '' is an empty one.
Ended run_words(const std::string& words) {
  std::vector<std::string> command = {built_program()};
  std::istringstream text(words);
  for (std::string word; text >> word;) command.push_back(word == "''" ? "" : word);
  return run_program(command);
}

void check_refused(const std::string& words, const std::string& expected) {
  const Ended ended = run_words(words);
  INFO(words, " -> ", ended.err);
  CHECK(ended.exit_code == 1);
  CHECK(ended.out == "");
  CHECK(ended.err.starts_with("pagedinfer: "));
  CHECK(ended.err.find('\n') == ended.err.size() - 1);
  CHECK(ended.err.find(expected) != std::string::npos);
}

TEST_CASE("flags: a wrong command line ends with code 1 and names the flag") {
  check_refused("", "expected a subcommand");
  check_refused("frob", "frob: unknown");
  check_refused("launch --help", "launch: unknown");
  check_refused("run", "--input");
  check_refused("run --input", "--input");
  check_refused("run --input x --foo", "--foo: unknown");
  check_refused("run --input x bar", "bar: is a word without a flag");
  const std::string file = built_program();
  check_refused(file, file + ": is a file; expected a subcommand, as in pagedinfer run --input ");
  check_refused("run --input x --threads many", "--threads");
  check_refused("run --input x --threads 1.5", "--threads");
  check_refused("run --input x --threads 99999999999", "--threads");
  check_refused("run --input x --kv pages", "--kv: found pages, expected one of paged, contiguous");
  check_refused("run --input x --kv paged --kv paged", "--kv: given 2 times, expected once");
  check_refused("run --input x -i y", "--input: given 2 times, expected once");
  if (const std::string problem = cuda_problem(); !problem.empty()) {
    check_refused("run --input x --device cuda", "--device cuda: " + problem);
  }
  check_refused("run --input x --kv-memory 2XB", "--kv-memory");
  check_refused("run --input x --kv-memory 0GiB", "--kv-memory: found 0GiB");
  check_refused("run --input x --block-size 0", "--block-size: found 0, ");
  check_refused("run --input x --stop ''", "--stop");
  check_refused("run --input x --batching static --kv paged", "--kv paged");
  check_refused("run --input x --kv contiguous --prefix-cache on", "--prefix-cache on");
  check_refused("run --input x --batching static --prefix-cache on", "--prefix-cache on");
  check_refused("run --input x --kv contiguous --admission-reserve 0.3",
                "--admission-reserve 0.3: reservations of --kv contiguous do not grow; leave it "
                "out, or use --kv paged");
  check_refused("run --input x --batching static --admission-reserve 0",
                "--admission-reserve 0: reservations of --batching static do not grow; leave it "
                "out, or use --batching continuous");
  check_refused("run --input x --temperature=-1", "--temperature: found -1, ");
  check_refused("run --input x --presence-penalty -3", "--presence-penalty: found -3, ");
}

TEST_CASE("flags: what is wrong with a flag is said in our own words") {
  const std::pair<const char*, const char*> cases[] = {
      {"run --input", "--input: expected a value\n"},
      {"run -i", "-i: expected a value\n"},
      {"run --input --model x", "--input: expected a value, found the flag --model; "},
      {"run --input x --temperature=", "--temperature=: expected a value\n"},
      {"run --input x --quiet=maybe", "--quiet=maybe: --quiet takes no value\n"},
      {"run --input x --temperature warm", "found warm, expected a number from 0 to 10000\n"},
      {"run --input x --temperature nan",
       "--temperature: found nan, expected a number from 0 to 10000\n"},
      {"run --input x --min-p 1e400", "--min-p: found 1e400, expected a number from 0 to 1\n"},
      {"run --input x --top-p 1e-60", "found 1e-60, expected a number above 0 and at most 1\n"},
      {"run --input x --top-k 3000000000", "0, expected an integer from -1 to 2147483647\n"},
      {"run --input x --top-k 5.0", "5.0, expected an integer from -1 to 2147483647\n"},
      {"run --input x --top-k abc", "abc, expected an integer from -1 to 2147483647\n"},
      {"run --input x --top-k -2", "-2, expected an integer from -1 to 2147483647\n"},
      {"run --input x --max-tokens 0", "0, expected an integer from 1 to 2147483647\n"},
      {"run --input x --min-tokens x", "x, expected an integer from 0 to 2147483647\n"},
      {"run --input x --sync-every x",
       "--sync-every: found x, expected a number from 0 to 86400\n"},
      {"run --input x --stop-token-ids 1,x", "found 1,x, expected a list of token ids"},
      {"run --input x --stop-token-ids 1,,2", "found 1,,2, expected a list of token ids"},
      {"run -i=x", "-i=x: expected a space between -i and its value\n"},
      {"run --input x --kv-memory 2XB",
       "--kv-memory: found 2XB, expected bytes, as in 500MB, 1.5GB"},
      {"run --input x --kv-memory lots", "--kv-memory: found lots, expected bytes"},
      {"run --input x --kv-memory -1GB", "--kv-memory: found -1GB, expected bytes"},
      {"run --input x --dtype bfloat61", "--dtype: found bfloat61, expected one of auto, float32"},
      {"run --input x --max-new-tokens 5", "--max-new-tokens: unknown; here it is --max-tokens. "},
      {"run --input x --quantization fp8", "--quantization: unknown; here it is --quantize. "},
      {"run --input x --kv-cache-dtype=fp8", "--kv-cache-dtype: unknown; here it is --kv-dtype. "},
      {"run --input x --load-format dummy", "--load-format: unknown; here it is --weights. "},
      {"run -m x", "-m: unknown; here it is --model. "},
      {"run --input x -t 4", "-t: unknown; here it is --threads. "},
      {"run --input x --ctx-size 4", "--ctx-size: unknown; here it is --max-model-len. "},
      {"run --input x --t 4", "--t: unknown; "},
      {"run prompts.jsonl", "prompts.jsonl: is a word without a flag; --input may be missing "},
      {"info Qwen/Qwen3-0.6B", "Qwen3-0.6B: is a word without a flag; --model may be missing "},
      {"help rnu", "rnu: unknown; did you mean run? "},
      {"serve --model x", "serve: unknown; see pagedinfer --help\n"},
      {"bench --max-num-seqs=8", "--max-num-seqs: unknown; here it is --max-batch-size. "},
      {"run --input x --max-token 5", "--max-token: unknown; did you mean --max-tokens? "},
      {"run --input x --temprature=1", "--temprature: unknown; did you mean --temperature? "},
      {"run --input x --no-such-flag", "--no-such-flag: unknown; see pagedinfer run --help-all\n"},
      {"rnu --input x", "rnu: unknown; did you mean run? "},
      {"merge --output", "--output: expected a value\n"},
      {"merge --overwite a", "--overwite: unknown; did you mean --overwrite? "}};
  for (const auto& [words, expected] : cases) check_refused(words, expected);
}

TEST_CASE("flags: help and version go to standard output with code 0") {
  for (const char* arguments : {"--version", "run --version"}) {
    const Ended ended = run_words(arguments);
    CHECK(ended.exit_code == 0);
    CHECK(ended.out.starts_with("pagedinfer "));
    CHECK(ended.out.ends_with("\n"));
  }
  for (const char* arguments : {"--help", "-h", "run --help", "run -h", "run --help-all", "help"}) {
    const Ended ended = run_words(arguments);
    CHECK(ended.exit_code == 0);
    CHECK(ended.out.find("Usage: pagedinfer") != std::string::npos);
  }
  CHECK(run_words("help verify").out == run_words("verify --help").out);
  CHECK(run_words("help").out == run_words("--help").out);
}

}  // namespace
}  // namespace pagedinfer
