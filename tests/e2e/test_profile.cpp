// `run --profile` as its users see it.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tests/support/e2e.h"

namespace pagedinfer {

TEST_CASE("a profile changes no byte of the completions") {
  const std::string lines = uneven_lines(24);
  for (const char* model : {"story-llama", "story-gemma3"}) {
    const Words flags = {"--model", model, "--device", "cpu", "--max-batch-size", "7"};
    const Answers plain = answer(lines, flags);
    const Answers profiled = answer(lines, flags + Words{"--profile"});
    CHECK(profiled.exit_code == 0);
    CHECK(profiled.out == plain.out);
    CHECK(plain.err.find("of bound") == std::string::npos);
    CHECK(profiled.err.find("of bound") != std::string::npos);
  }
}

TEST_CASE("a profile's operations and gaps make up the steps") {
  const TempDir dir;
  const std::string prompt = R"({"prompt": "Nora has three apples.", "max_tokens": 9})";
  const Answers found =
      answer(uneven_lines(24) + prompt + "\n",
             {"--device", "cpu", "--profile", "--stats", dir / "stats", "--trace", dir / "trace"});
  REQUIRE(found.exit_code == 0);
  const Json summary = summary_beside(dir / "stats");
  const Json profile(summary["/profile"]);
  const std::vector<Json> steps = json_file(dir / "trace");
  CHECK(profile.integer("/steps") == summary.integer("/steps"));
  CHECK(profile.integer("/decode_steps") > 0);
  CHECK(profile.integer("/decode_steps") < profile.integer("/steps"));
  CHECK(profile.number("/peak_gb_per_s") > 0);
  CHECK(profile.number("/peak_tflop_per_s") > 0);

  std::set<std::string> names;
  double seconds = 0;
  for (int i = 0; profile.has("/ops/" + std::to_string(i)); ++i) {
    const std::string op = "/ops/" + std::to_string(i);
    names.insert(profile.text(op + "/op"));
    seconds += profile.number(op + "/time_s");
    CHECK(profile.integer(op + "/calls") > 0);
    CHECK(profile.number(op + "/bytes") > 0);
  }
  CHECK(names.contains("attention"));
  CHECK(names.contains("sample"));
  CHECK(seconds == doctest::Approx(profile.number("/op_s")).epsilon(0.01));

  // They lie within the steps, and little else does.
  double computed = 0;
  for (const Json& step : steps) {
    computed += 1e-3 * (step.number("/forward_ms") + step.number("/sample_ms"));
  }
  const double elapsed = steps.back().number("/end_s") - steps.front().number("/begin_s");
  CHECK(profile.number("/op_s") + profile.number("/gap_s") <= elapsed + 1e-5);
  CHECK(profile.number("/op_s") >= computed / 2);
}

TEST_CASE("a profile that is neither printed nor written is refused") {
  const Ended ended = run({"--input", "-", "--profile", "--quiet"});
  CHECK(ended.exit_code == 1);
  CHECK(ended.err.find("--profile") != std::string::npos);
  CHECK(ended.err.find("--stats") != std::string::npos);
}

}  // namespace pagedinfer
