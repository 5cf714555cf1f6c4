// Runs that cannot be: refused before anything is made or lost, with a message that helps.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "ops/cuda/cuda_ops.h"
#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

const std::string kLine = R"({"prompt": "Nora", "max_tokens": 2})"
                          "\n";

// A directory with an input and, from an earlier run, an output.
class Scene {
 public:
  Scene() {
    write_file(input, kLine);
    write_file(output, "old\n");
  }

  // CHECKs that the run is refused with a message that has these words, and changes no file.
  void refuses(const Words& flags, const Words& words) {
    const std::set<std::string> before = names_in(dir.path());
    std::string all;
    for (const std::string& flag : flags) all += flag + " ";
    CAPTURE(all);
    const Ended ended = run(flags);
    CAPTURE(ended.err);
    CHECK(ended.exit_code == 1);
    CHECK(ended.out == "");
    CHECK(ended.err.starts_with("pagedinfer: "));
    CHECK(ended.err.ends_with("\n"));
    for (const std::string& word : words) {
      CHECK_MESSAGE(ended.err.find(word) != std::string::npos, "expected in the message: ", word);
    }
    CHECK(read_file(input) == kLine);
    CHECK(read_file(output) == "old\n");
    CHECK(names_in(dir.path()) == before);
  }

  // The same with the input that would do.
  void refuses_with_input(const Words& flags, const Words& words) {
    refuses(Words{"--input", input, "--overwrite"} + flags, words);
  }

  const TempDir dir;
  const std::string input = dir / "in.jsonl", output = dir / "in.completions.jsonl";
};

// A copy of the bundled model that can be broken.
void copy_model(const std::string& to) { fs::copy(bundled_model(), to); }

}  // namespace

TEST_CASE("an existing output is refused, and replaced only with overwrite") {
  Scene scene;
  scene.refuses({"--input", scene.input}, {scene.output, "exists", "--overwrite"});
  scene.refuses({"--input", scene.input, "--output", scene.output, "--stats", scene.dir / "s"},
                {scene.output, "--overwrite"});
  CHECK(run({"--input", scene.input, "--overwrite"}).exit_code == 0);
  CHECK(json_file(scene.output).size() == 1);
}

TEST_CASE("records that an unfinished run left behind are refused too") {
  Scene scene;
  fs::remove(scene.output);
  write_file(scene.output + ".part", "left\n");
  const Ended refused = run({"--input", scene.input});
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find(scene.output + ".part") != std::string::npos);
  CHECK(read_file(scene.output + ".part") == "left\n");
  CHECK(!fs::exists(scene.output));
  CHECK(run({"--input", scene.input, "--overwrite"}).exit_code == 0);
  CHECK(!fs::exists(scene.output + ".part"));
}

TEST_CASE("files that are not there are named") {
  Scene scene;
  scene.refuses({"--input", scene.dir / "missing.jsonl"}, {scene.dir / "missing.jsonl"});
  scene.refuses({"--input", scene.dir.path()}, {scene.dir.path()});
  fs::create_symlink("nowhere", scene.dir / "link");
  scene.refuses({"--input", scene.dir / "link"}, {"link", "it is a link to 'nowhere'"});
  scene.refuses({"--input", scene.input, "--output", scene.dir / "no/out.jsonl"},
                {scene.dir / "no/out.jsonl"});
  scene.refuses({"--input", scene.input, "--output", scene.input + "/out.jsonl"},
                {scene.input + "/out.jsonl"});
  scene.refuses({"--input", scene.input, "--output", scene.dir.path()}, {scene.dir.path()});
  scene.refuses_with_input({"--stats", scene.dir / "no/stats.jsonl"},
                           {scene.dir / "no/stats.jsonl"});
  scene.refuses_with_input({"--trace", scene.dir / "no/trace.jsonl"},
                           {scene.dir / "no/trace.jsonl"});
  if (geteuid() == 0) {
    MESSAGE("SKIPPED: a directory without permission, as this user has all of them");
    return;
  }
  fs::create_directory(scene.dir / "closed");
  fs::permissions(scene.dir / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  scene.refuses({"--input", scene.input, "--output", scene.dir / "closed/out.jsonl"},
                {scene.dir / "closed/out.jsonl"});
}

TEST_CASE("one file is not used for two things") {
  Scene scene;
  scene.refuses({"--input", scene.input, "--output", scene.input, "--overwrite"},
                {"--output", "--input"});
  scene.refuses_with_input({"--stats", scene.output}, {"--stats", "--output"});
  scene.refuses_with_input({"--trace", scene.dir / "in.stats.jsonl"}, {"--trace", "--stats"});
  scene.refuses_with_input({"--output", "-", "--stats", "-"}, {"--stats", "--output"});
}

TEST_CASE("a file that is not there yet has one use, however it is named") {
  const Scene scene;
  const std::string dir = scene.dir.path();
  fs::create_directory(scene.dir / "mm");
  write_file(scene.dir / "mm/config.json", "{}");
  fs::create_symlink("loop", scene.dir / "loop");
  const std::set<std::string> before = names_in(dir);
  const auto message_of = [&](const Words& flags) {
    const Ended ended = run_program(Words{"/bin/sh", "-c", "cd \"$0\"; exec \"$@\"", dir} +
                                    command(Words{"run", "--input", "in.jsonl"} + flags));
    CHECK(ended.exit_code == 1);
    CHECK(names_in(dir) == before);
    return ended.err;
  };
  for (const Words& flags :
       {Words{"--output", "o", "--stats", dir + "/o"}, Words{"--output", "p", "--trace", "./p"},
        Words{"--output", "q", "--stats", "./q.part"},
        Words{"--output", dir + "/z", "--trace", "z.run"},
        Words{"--model", "./mm", "--output", dir + "/mm/tokenizer.json"},
        Words{"--model", "mm", "--output", "o", "--stats", dir + "/mm/tokenizer.json"}}) {
    const std::string message = message_of(flags);
    CAPTURE(message);
    CHECK(message.find("another name") != std::string::npos);
  }
  const std::string a(300, 'a'), b(300, 'b');
  for (const Words& flags : {Words{"--output", a, "--stats", b},
                             Words{"--output", "loop/a", "--stats", "loop/b", "--trace", "c"}}) {
    const std::string message = message_of(flags);
    CAPTURE(message);
    CHECK(message.find("another name") == std::string::npos);
  }
  CHECK(message_of({"--output", a, "--stats", "./" + a}).find("another name") != std::string::npos);
}

TEST_CASE("a model that is not one is refused before the output is touched") {
  Scene scene;
  scene.refuses_with_input({"--model", scene.dir / "missing"}, {scene.dir / "missing"});
  scene.refuses_with_input({"--model", "no-such-model"}, {"--model", "no-such-model"});
  scene.refuses_with_input({"--model", ""}, {"--model"});

  fs::create_directory(scene.dir / "empty");
  scene.refuses_with_input({"--model", scene.dir / "empty"}, {scene.dir / "empty", "config.json"});
}

TEST_CASE("a model that is broken is refused, naming the file") {
  Scene scene;
  const std::string model = scene.dir / "model", tensors = model + "/model.safetensors";
  copy_model(model);
  const std::string weights = read_file(tensors);
  REQUIRE(weights.size() > 1000);
  const size_t header = 8 + static_cast<size_t>(static_cast<unsigned char>(weights[0])) +
                        256 * static_cast<size_t>(static_cast<unsigned char>(weights[1]));

  for (const size_t length : {size_t{0}, size_t{4}, size_t{8}, header / 2, header,
                              weights.size() / 2, weights.size() - 1}) {
    CAPTURE(length);
    write_file(tensors, weights.substr(0, length));
    scene.refuses_with_input({"--model", model}, {"model.safetensors"});
  }
  std::string overlong = weights;
  for (size_t i = 0; i < 8; ++i) overlong[i] = '\xFF';
  write_file(tensors, overlong);
  scene.refuses_with_input({"--model", model}, {"model.safetensors"});
  fs::remove(tensors);
  scene.refuses_with_input({"--model", model}, {model});
  write_file(tensors, weights);

  const std::string config = read_file(model + "/config.json");
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string("{}"),
                                  R"({"architectures": ["MambaForCausalLM"]})" + std::string()}) {
    CAPTURE(text);
    write_file(model + "/config.json", text);
    scene.refuses_with_input({"--model", model}, {"config.json"});
  }
  write_file(model + "/config.json", R"({"architectures": ["MambaForCausalLM"]})");
  scene.refuses_with_input({"--model", model}, {"MambaForCausalLM", "LlamaForCausalLM"});
  write_file(model + "/config.json", config);

  const std::string tokenizer = read_file(model + "/tokenizer.model");
  write_file(model + "/tokenizer.model", tokenizer.substr(0, tokenizer.size() / 2));
  scene.refuses_with_input({"--model", model}, {"tokenizer.model"});
  write_file(model + "/tokenizer.model", tokenizer);
  CHECK(run({"--input", scene.input, "--overwrite", "--model", model}).exit_code == 0);
}

TEST_CASE("a run that cannot begin keeps the files of an earlier run") {
  Scene scene;
  const std::string part = scene.output + ".part";
  write_file(part, "left");
  scene.refuses_with_input({"--stats", scene.dir / "none/stats"}, {"none/stats"});
  scene.refuses_with_input({"--trace", scene.dir / "none/trace"}, {"none/trace"});
  CHECK(read_file(part) == "left");
}

TEST_CASE("combinations that cannot be are refused, naming the flag") {
  Scene scene;
  const auto refuses = [&](const Words& flags, const Words& words) {
    scene.refuses_with_input(flags, words);
  };
  refuses({"--batching", "static", "--kv", "paged"}, {"--kv", "static"});
  refuses({"--batching", "static", "--chunked-prefill", "on"}, {"--chunked-prefill", "static"});
  refuses({"--batching", "static", "--prefill-chunk-size", "8"}, {"--prefill-chunk-size"});
  refuses({"--chunked-prefill", "off", "--prefill-chunk-size", "8"}, {"--prefill-chunk-size"});
  refuses({"--block-size", "0"}, {"--block-size"});
  refuses({"--block-size", "-16"}, {"--block-size"});
  refuses({"--num-blocks", "0"}, {"--num-blocks"});
  refuses({"--num-blocks", "64", "--kv-memory", "1MiB"}, {"--num-blocks", "--kv-memory"});
  refuses({"--num-blocks", "99999999999"}, {"--num-blocks"});
  refuses({"--num-blocks", "100000000"}, {"--num-blocks", "GiB"});
  refuses({"--kv-memory", "2TiB"}, {"--kv-memory", "GiB"});
  refuses({"--kv-memory", "100"}, {"--kv-memory"});
  refuses({"--prefill-chunk-size", "0"}, {"--prefill-chunk-size"});
  refuses({"--max-prefill-chunks", "0"}, {"--max-prefill-chunks"});
  refuses({"--max-batch-size", "0"}, {"--max-batch-size"});
  refuses({"--max-step-tokens", "100", "--max-batch-size", "101"},
          {"--max-step-tokens", "--max-batch-size"});
  refuses({"--max-step-tokens", "1000", "--chunked-prefill", "off"},
          {"--max-step-tokens", "--max-model-len"});
  refuses({"--max-model-len", "1"}, {"--max-model-len"});
  refuses({"--max-model-len", "4097"}, {"--max-model-len", "4096"});
  refuses({"--kv", "contiguous", "--num-blocks", "10"}, {"--num-blocks", "--max-model-len"});
  refuses({"--admission-reserve", "1"}, {"--admission-reserve"});
  refuses({"--admission-reserve", "nan"}, {"--admission-reserve"});
  if (const std::string problem = cuda_problem(); !problem.empty()) {
    refuses({"--device", "cuda"}, {"--device cuda", problem, "--device cpu"});
  }
  refuses({"--gpu-memory-utilization", "1.1"},
          {"--gpu-memory-utilization: found 1.1", "at most 1"});
  refuses({"--gpu-memory-utilization", "0"}, {"--gpu-memory-utilization: found 0", "above 0"});
  refuses({"--gpu-memory-utilization", "0.5", "--device", "cpu"},
          {"--gpu-memory-utilization", "--device cpu"});
  refuses({"--device", "tpu"}, {"--device"});
  refuses({"--threads", "0"}, {"--threads"});
  refuses({"--threads", "4096"}, {"--threads: found 4096, expected an integer from 1 to 1024"});
  refuses({"--cpu-isa", "neon"}, {"--cpu-isa", "avx2"});
  refuses({"--dtype", "int4"}, {"--dtype", "bfloat16"});
  refuses({"--weights", "random"}, {"--weights", "dummy"});
  refuses({"--max-tokens", "0"}, {"--max-tokens"});
  refuses({"--min-tokens", "9", "--max-tokens", "8"},
          {"--min-tokens: found 9, expected at most --max-tokens, which is 8"});
  refuses({"--n", "3", "--best-of", "2"},
          {"--best-of: found 2, expected at least --n, which is 3"});
  refuses({"--n", "65"}, {"--n", "64"});
  refuses({"--temperature", "-1"}, {"--temperature"});
  refuses({"--temperature", "nan"}, {"--temperature"});
  refuses({"--top-p", "0"}, {"--top-p"});
  refuses({"--min-p", "1.5"}, {"--min-p"});
  refuses({"--repetition-penalty", "0"}, {"--repetition-penalty"});
  refuses({"--presence-penalty", "3"}, {"--presence-penalty"});
  refuses({"--stop", ""}, {"--stop"});
  refuses({"--stop-token-ids", "5,-1"}, {"--stop-token-ids"});
  for (const char* shard : {"3", "", "/", "1/", "/2", "2/2", "-1/2", "0/0", "0/-1", "1/2/3", "a/b",
                            "1/2 ", "0/99999999999999999999"}) {
    refuses({"--shard", shard},
            {"--shard: found " + std::string(*shard ? shard : "nothing"), "I/N", "0/8"});
  }
  refuses({"--limit", "0"}, {"--limit", "from 1"});
  refuses({"--prompt-field", ""}, {"--prompt-field", "not empty"});
  refuses({"--prompt-field", "top_k"}, {"--prompt-field top_k", "something else"});
}

TEST_CASE("what is written has a name, and only of records one that says it is compressed") {
  Scene scene;
  const std::string packed = scene.dir / "x.gz";
  for (const std::string flag : {"--output", "--stats", "--trace"}) {
    scene.refuses_with_input({flag, ""}, {flag + ": found nothing, expected a path"});
    if (flag == "--output") continue;
    scene.refuses_with_input({flag, packed}, {flag + " " + packed, "give a name without .gz"});
  }
  for (const Words& words : {Words{"verify", "--input", scene.input, "--output", packed},
                             Words{"bench", "--workload", "baseline", "--emit", packed},
                             Words{"bench", "--workload", "baseline", "--results", packed}}) {
    const Ended ended = run_program(command(words));
    CHECK(ended.exit_code == 1);
    CHECK_MESSAGE(ended.err.find(packed + ": ends with .gz") != std::string::npos, ended.err);
  }
}

TEST_CASE("flags that are malformed or unknown are refused by name") {
  Scene scene;
  const auto refuses = [&](const Words& flags, const Words& words) {
    scene.refuses_with_input(flags, words);
  };
  refuses({"--no-such-flag"}, {"--no-such-flag", "--help"});
  refuses({"--no-such-flag=3"}, {"--no-such-flag", "--help"});
  refuses({"word"}, {"word"});
  refuses({"--kv", "heap"}, {"--kv", "paged"});
  refuses({"--batching", "dynamic"}, {"--batching", "continuous"});
  refuses({"--order", "random"}, {"--order", "completion"});
  refuses({"--progress", "loud"}, {"--progress", "auto"});
  refuses({"--chunked-prefill", "maybe"}, {"--chunked-prefill", "on"});
  refuses({"--block-size", "many"}, {"--block-size"});
  refuses({"--block-size", "16.5"}, {"--block-size"});
  refuses({"--block-size", "99999999999999999999"}, {"--block-size"});
  refuses({"--block-size"}, {"--block-size"});
  refuses({"--block-size", "16", "--block-size=8"}, {"--block-size", "given 2 times"});
  refuses({"--order", "input", "--order", "input"}, {"--order", "given 2 times"});
  refuses({"--temperature", "warm"}, {"--temperature"});
  refuses({"--seed", "-1.5"}, {"--seed"});
  refuses({"--kv-memory", "lots"}, {"--kv-memory"});
  scene.refuses({}, {"--input"});
  scene.refuses({"--input", ""}, {"--input"});
  scene.refuses({"--input"}, {"--input"});
}

TEST_CASE("an unknown command is refused by name, whatever stands behind it") {
  for (const Words& words : {Words{"no-such-command"}, Words{"no-such-command", "--help"}}) {
    const Ended unknown = run_program(command(words));
    CHECK(unknown.exit_code == 1);
    CHECK(unknown.out == "");
    CHECK(unknown.err.find("no-such-command: unknown") != std::string::npos);
  }
  const Ended nothing = run_program(command({}));
  CHECK(nothing.exit_code == 1);
  CHECK(nothing.err.find("pagedinfer run --input") != std::string::npos);
}

}  // namespace pagedinfer
