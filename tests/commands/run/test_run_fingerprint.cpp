// A run is resumed only with settings that give the same records.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "commands/run/run_info.h"
#include "load/backends.h"
#include "settings/help.h"
#include "settings/table.h"
#include "settings/values.h"
#include "tests/support/grammar_support.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

Config config_with(std::string_view key, std::string_view text) {
  Config config;
  give("model", source_dir() + "/datasets/story-qwen3", config);
  give("num_blocks", "64", config);
  give("threads", "1", config);
  give("device", "cpu", config);
  if (!key.empty()) give(key, text, config);
  return config;
}

ModelPlan load(const Config& config) {
  return plan_model({config}, [] { return 0.0; });
}

Fingerprint fingerprint_of(const Config& config, const ModelPlan& model) {
  return fingerprint_of(config, model, model.runs.front());
}

std::string value_of(const Fingerprint& fingerprint, std::string_view key) {
  for (const auto& [name, value] : fingerprint.settings) {
    if (name == key) return value;
  }
  return "none";
}

// A value that is not the default.
std::string another_value(const Setting& setting) {
  if (setting.key == "chat_template") return "none";
  if (setting.key == "prompt_template") return "{{ other }}";
  if (setting.key == "message_template") return "user={{ other }}";
  if (setting.key == "chat_date") return "2025-05-01";
  if (setting.key == "dtype") return "float32";
  if (const auto* range = std::get_if<IntegerRange>(&setting.range)) {
    return std::to_string(range->from + 3);
  }
  if (const auto* range = std::get_if<NumberRange>(&setting.range)) {
    return fmt::format("{}", range->from + 0.75 * (range->to - range->from));
  }
  switch (setting.kind) {
    case Kind::kSwitch: return "";
    case Kind::kChoice: return std::string(setting.choices.back().name);
    case Kind::kSeed: return "7";
    case Kind::kTokenIds: return "1,2";
    case Kind::kShard: return "1/2";
    default: return "other";
  }
}

TEST_CASE("every setting that changes records is in the fingerprint with its value") {
  const TempDir dir;
  write_file(dir / "grammar", "root ::= [0-9]");
  write_file(dir / "json_schema", R"({"type": "integer"})");
  const ModelPlan model = load(config_with("", ""));
  const Fingerprint usual = fingerprint_of(config_with("", ""), model);
  int num_settings = 0;
  for (const Setting& setting : kSettings) {
    if (setting.key == "device" || setting.key == "deterministic") continue;  // below
    if (!setting.is_flag) continue;
    if (setting.effect == Effect::kChangesRecords) {
      const bool is_form = setting.key == "grammar" || setting.key == "json_schema";
      if (setting.group == Group::kForm && !model.no_forms.empty()) continue;
      const Config config = config_with(
          setting.key, is_form ? dir / std::string(setting.key) : another_value(setting));
      CAPTURE(setting.key);
      const ModelPlan other = load(config);
      CHECK(value_of(usual, setting.key) != value_of(fingerprint_of(config, other), setting.key));
      ++num_settings;
    } else {
      CHECK(value_of(usual, setting.key) == "none");
    }
  }
  CHECK(num_settings >= 26);
}

TEST_CASE("the columns that share a scale in int4 are in the fingerprint") {
  const auto group_of = [](const std::string& quantize) {
    const Config config = config_with("quantize", quantize);
    return value_of(fingerprint_of(config, load(config)), "int4_group");
  };
  CHECK(group_of("int4") == "128");
  CHECK(group_of("int8") == "none");
  CHECK(group_of("auto") == "none");
}

TEST_CASE("a setting that an earlier program did not know is the same as its empty list") {
  const Fingerprint before;
  Fingerprint now, other;
  now.set("keep", "[]");
  other.set("keep", R"(["a"])");
  CHECK_FALSE(first_difference(before, now));
  CHECK(first_difference(before, other)->a == "none");
  CHECK(first_difference(now, other)->a == "none");
}

TEST_CASE("the fingerprint of a run on a GPU is another one, and tells how it adds up") {
  const Config config = config_with("", "");
  const Config deterministic = config_with("deterministic", "");
  ModelPlan model = load(config);
  CHECK(value_of(fingerprint_of(config, model), "device") == "cpu");
  CHECK_FALSE(first_difference(fingerprint_of(config, model),
                               fingerprint_of(deterministic, model)));  // the CPU always is
  model.backend = &backend_of(Config::Device::kCuda);
  CHECK(value_of(fingerprint_of(config, model), "device") == "cuda");
  CHECK(value_of(fingerprint_of(config, model), "deterministic") == "off");
  CHECK(value_of(fingerprint_of(config, model), "gpu") == "none");
  CHECK(value_of(fingerprint_of(deterministic, model), "deterministic") == "on");
  CHECK(value_of(fingerprint_of(deterministic, model), "gpu") != "none");
}

TEST_CASE("frequencies of rope that depend on a run's length are in its fingerprint") {
  const TinyModel files({.max_positions = 256, .family = tiny_phi3(9)});  // trained for 64
  const auto rope_of = [&](const std::string& max_model_len) {
    Config config = config_with("max_model_len", max_model_len);
    config.model = files.dir();
    return value_of(fingerprint_of(config, load(config)), "rope");
  };
  CHECK(rope_of("64") == "short");
  CHECK(rope_of("65") == "long");
  const Config plain = config_with("", "");
  CHECK(value_of(fingerprint_of(plain, load(plain)), "rope") == "none");
}

TEST_CASE("--help names the usual step of every backend") {
  const std::string text = default_of(*find_setting("max_step_tokens"));
  for (const BackendRow& row : backends()) {
    CHECK(text.find(std::to_string(row.info.usual_step_tokens)) != std::string::npos);
  }
}

TEST_CASE("of the file of a form the contents are in the fingerprint") {
  if (is_skipped_without_grammar()) return;
  const TempDir dir;
  const auto of_grammar = [&](const std::string& name, const std::string& rules) {
    write_file(dir / name, rules);
    const Config config = config_with("grammar", dir / name);
    return fingerprint_of(config, load(config));
  };
  const Fingerprint digit = of_grammar("a", "root ::= [0-9]");
  CHECK(first_difference(digit, of_grammar("a", "root ::= [0-8]")));
  CHECK_FALSE(first_difference(digit, of_grammar("b", "root ::= [0-9]")));
}

TEST_CASE("a text and the lack of one are two values of the fingerprint") {
  const ModelPlan model = load(config_with("", ""));
  CHECK(first_difference(fingerprint_of(config_with("", ""), model),
                         fingerprint_of(config_with("system", "none"), model)));
}

}  // namespace
}  // namespace pagedinfer
