// The program on the emulated device: whole runs, from flags to records.
#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/e2e.h"
#include "tests/support/grammar_support.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

// Requests of different lengths; some are greedy.
std::string lines_of(bool all_greedy) {
  std::string lines;
  for (int i = 0; i < 7; ++i) {
    lines += R"({"prompt": "Nora has )" + std::to_string(i * i) + " apples" +
             std::string(static_cast<size_t>(i), '.') + R"(", "max_tokens": )" +
             std::to_string(2 + 3 * i % 8) +
             (all_greedy || i % 3 == 0 ? "" : R"(, "temperature": 0.9, "top_p": 0.8)") + "}\n";
  }
  return lines + "no JSON\n";
}

// Lines with forms among free ones, greedy, drawn and searched for by beams, some with several
// samples and penalties.
std::string lines_with_forms() {
  constexpr const char* kForms[] = {
      R"("guided_regex":"[A-Z][a-z]{2,8}( [a-z]+)*\\.")",
      R"("guided_choice":["yes","no","not today"])", R"("stop":["e"])",
      R"("guided_json":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})",
      R"("guided_grammar":"root ::= \"(\" root \")\" | [0-9]{1,4}")"};
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += fmt::format(
        R"({{"prompt":"Tell me of {}.","max_tokens":{},"temperature":{}{}{}{},{}}})",
        std::string(static_cast<size_t>(i), '7'), 4 + i * 7 % 19, i % 3 == 0 ? "0" : "1.2",
        i % 4 == 3 ? R"(,"n":2)" : "", i % 6 == 0 && i != 12 ? R"(,"beam_width":3)" : "",
        i % 7 == 3 ? R"(,"repetition_penalty":1.2,"logit_bias":{"20":2})" : "", kForms[i % 5]);
    lines += '\n';
  }
  return lines;
}

// The last bit of a sum of log probabilities may differ.
std::string without_scores(std::string records) {
  constexpr std::string_view kScore = R"("score":)";
  for (size_t at = 0; (at = records.find(kScore, at)) != records.npos;) {
    records.erase(at, records.find(',', at) + 1 - at);
  }
  return records;
}

// Settings of the emulated device for the programs that a test starts.
class ProgramSettings {
 public:
  explicit ProgramSettings(const std::string& more) {
    setenv(kName, (before_ + " " + more).c_str(), 1);
  }
  ~ProgramSettings() { setenv(kName, before_.c_str(), 1); }
  ProgramSettings(const ProgramSettings&) = delete;
  ProgramSettings& operator=(const ProgramSettings&) = delete;

 private:
  static constexpr const char* kName = "PAGEDINFER_EMULATED";
  const std::string before_ = std::getenv(kName) == nullptr ? "" : std::getenv(kName);
};

}  // namespace

TEST_CASE("emulated: answers in a given form are the CPU's, whatever the settings") {
  if (is_skipped_without_grammar()) return;
  const std::string lines = lines_with_forms();
  const Words flags = {"--dtype", "float32"};
  const Answers cpu = answer(lines, flags + Words{"--device", "cpu", "--num-blocks", "200"});
  REQUIRE(cpu.records.size() == 20);
  const std::vector<Words> settings = {
      {"--num-blocks", "200", "--max-step-tokens", "256"},
      {"--max-batch-size", "2", "--num-blocks", "200", "--max-step-tokens", "64"},
      // Preempted and chunked.
      {"--max-batch-size", "5", "--max-step-tokens", "7", "--prefill-chunk-size", "3",
       "--num-blocks", "27", "--block-size", "3", "--max-model-len", "64"},
  };
  for (const Words& more : settings) {
    const Answers found =
        answer(lines, flags + Words{"--device", "cuda", "--deterministic"} + more);
    INFO(more[0], " ", more[1], found.err);
    CHECK(found.exit_code == cpu.exit_code);
    CHECK(without_scores(found.out) == without_scores(cpu.out));
  }
}

TEST_CASE("emulated: greedy completions in float32 are the CPU's") {
  for (const std::string model : {"story-llama", "story-gemma3"}) {
    for (const std::string cache : {"float32", "int8"}) {
      const std::string weights = cache == "int8" && model == "story-gemma3" ? "int8" : "none";
      INFO(model, ", cache in ", cache, ", weights: ", weights);
      const Words flags = {"--model",     source_dir() + "/datasets/" + model,
                           "--dtype",     "float32",
                           "--kv-dtype",  cache,
                           "--quantize",  weights,
                           "--kv-memory", "4MiB"};
      const Answers cpu = answer(lines_of(true), flags + Words{"--device", "cpu"});
      const Answers gpu =
          answer(lines_of(true), flags + Words{"--device", "cuda", "--gpu-cache", "none"});
      CHECK(gpu.exit_code == 2);
      REQUIRE(gpu.records.size() == 8);
      CHECK(gpu.out == cpu.out);
    }
  }
}

TEST_CASE("emulated: a step on a device has the tokens that suit one") {
  const TempDir dir;
  const Answers found = answer(
      "{\"prompt\": \"Nora\", \"max_tokens\": 2}\n",
      {"--device", "cuda", "--gpu-cache", "none", "--num-blocks", "50", "--stats", dir / "stats"});
  CHECK(found.exit_code == 0);
  CHECK(summary_beside(dir / "stats").integer("/config/max_step_tokens") == 8192);
}

TEST_CASE("emulated: with --deterministic settings do not change a byte") {
  for (const std::string cache : {"auto", "int8"}) {
    const Words flags = {"--device",
                         "cuda",
                         "--deterministic",
                         "--kv-dtype",
                         cache,
                         "--quantize",
                         cache == "int8" ? "int8" : "none"};
    const Answers expected =
        answer(lines_of(false), flags + Words{"--num-blocks", "200", "--max-step-tokens", "256"});
    CHECK(expected.records.size() == 8);
    const std::vector<Words> settings = {
        {"--max-batch-size", "1", "--num-blocks", "200", "--max-step-tokens", "64"},
        {"--max-batch-size", "3", "--max-step-tokens", "5", "--prefill-chunk-size", "3",
         "--num-blocks", "300", "--block-size", "3"},
        {"--kv", "contiguous", "--num-blocks", "40", "--max-model-len", "64", "--max-step-tokens",
         "128"},
    };
    for (const Words& more : settings) {
      const Answers found = answer(lines_of(false), flags + more);
      INFO(cache, ", ", more[0], " ", more[1], found.err);
      CHECK(found.exit_code == 2);
      CHECK(found.out == expected.out);
    }
  }
}

TEST_CASE("emulated: experts answer as on the CPU in float32, whatever the settings") {
  const TinyModel files({.family = tiny_expert_families(20, 3)[1]});  // with a shared expert
  std::string lines;
  for (int i = 1; i < 8; ++i) {
    lines += fmt::format(R"({{"prompt_token_ids": [{}, 3, {}], "max_tokens": {}}})", i, 5 * i,
                         3 + 4 * i % 9);
    lines += '\n';
  }
  for (const std::string weights : {"none", "int8"}) {
    const Words flags = {"--model", files.dir(), "--dtype", "float32", "--quantize", weights};
    const Answers cpu = answer(lines, flags + Words{"--device", "cpu"});
    REQUIRE(cpu.records.size() == 7);
    const std::vector<Words> settings = {{"--num-blocks", "40"},
                                         {"--max-batch-size", "3", "--max-step-tokens", "5",
                                          "--prefill-chunk-size", "2", "--num-blocks", "40"}};
    for (const Words& more : settings) {
      const Answers gpu =
          answer(lines, flags + Words{"--device", "cuda", "--gpu-cache", "none"} + more);
      INFO(weights, ", ", more[0], " ", more[1], gpu.err);
      CHECK(gpu.exit_code == 0);
      CHECK(gpu.out == cpu.out);
      CHECK(gpu.err.find("note: plain kernels compute experts on the GPU") != std::string::npos);
    }
  }
}

TEST_CASE("emulated: the summary and the state of a run hold the choice of algorithms") {
  const TempDir dir;
  const auto run = [&](const std::string& name, const Words& more) {
    const Answers found = answer(
        lines_of(false), Words{"--device", "cuda", "--stats", dir / name, "--num-blocks", "50",
                               "--max-step-tokens", "300", "--gpu-cache", dir / "cache"} +
                             more);
    CHECK(found.exit_code == 2);
    return summary_beside(dir / name);
  };
  const auto fixed = run("fixed", {"--deterministic"});
  const std::string gpu(fixed.text("/config/gpu"));
  CHECK(gpu.starts_with("emulated GPU, cuBLAS 130000, products "));
  CHECK(fixed.integer("/config/product_buckets") > 0);
  CHECK(fixed.integer("/config/product_buckets_fallen_back") == 0);
  CHECK(!std::filesystem::exists(dir / "cache"));
  CHECK(run("smaller", {"--deterministic", "--max-batch-size", "2", "--prefill-chunk-size", "9"})
            .text("/config/gpu") == gpu);
  const auto free = run("free", {});
  CHECK(!free.has("/config/gpu"));
  CHECK(!std::filesystem::is_empty(dir / "cache"));
}

TEST_CASE("emulated: what fails on a GPU and has a way round it changes no byte of a run") {
  const Words flags = {"--device",          "cuda", "--deterministic", "--num-blocks", "50",
                       "--max-step-tokens", "64"};
  const Answers expected = answer(lines_of(false), flags);
  CHECK(expected.records.size() == 8);
  for (const std::string fails :
       {"refuses_graphs=1", "algorithms_refused=1", "lacks_attributes=1"}) {
    const ProgramSettings settings(fails);
    const Answers found = answer(lines_of(false), flags);
    INFO(fails, found.err);
    CHECK(found.exit_code == expected.exit_code);
    CHECK(found.out == expected.out);
  }
}

TEST_CASE("emulated: a GPU that another program holds leaves a run to the CPU, with a note") {
  const std::string line = "{\"prompt\": \"Nora\", \"max_tokens\": 2}\n";
  const Answers cpu = answer(line, {"--device", "cpu"});
  const ProgramSettings settings("is_taken=1");
  const std::string problem = "emulated GPU is held by another program, or closed to all of them";
  const Answers chosen = answer(line, {"--device", "auto"});
  CHECK(chosen.exit_code == 0);
  CHECK(chosen.out == cpu.out);
  CHECK(chosen.err.find("note: the GPU is not used: " + problem) != std::string::npos);
  const Ended asked = run({"--device", "cuda", "--input", "-", "--output", "-"}, line);
  CHECK(asked.exit_code == 1);
  CHECK(asked.out == "");
  CHECK(asked.err.find("--device cuda: " + problem) != std::string::npos);
  CHECK(asked.err.find("; --device cpu works without") != std::string::npos);
}

TEST_CASE("emulated: without a usable cuBLAS a run stays on the CPU and says why") {
  // A copy of the program finds another library in its place: that of mathematics.
  TempDir dir;
  const std::string program = dir / "program";
  std::filesystem::copy_file(built_program(), program);
  std::filesystem::create_directory(dir / "lib");
  Dl_info other = {};
  REQUIRE(dladdr(dlsym(RTLD_DEFAULT, "cos"), &other) != 0);
  std::filesystem::copy_file(other.dli_fname,
                             dir / ("lib/libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)));

  const auto run_on = [&](const std::string& device) {
    Process process({program, "run", "--device", device, "--gpu-cache", "none", "--model",
                     bundled_model(), "--input", "-", "--output", "-"});
    process.write("{\"prompt\": \"Nora\", \"max_tokens\": 2}\n");
    process.close_input();
    return process.wait();
  };
  const std::string problem = "cuBLAS: libcublasLt.so.0 has no cublasLtGetVersion";
  const Ended chosen = run_on("auto");
  CHECK(chosen.exit_code == 0);
  CHECK(chosen.err.find("note: the GPU is not used: " + problem) != std::string::npos);
  const Ended asked = run_on("cuda");
  CHECK(asked.exit_code == 1);
  CHECK(asked.err.find("--device cuda: " + problem + "; --device cpu") != std::string::npos);
}

}  // namespace pagedinfer
