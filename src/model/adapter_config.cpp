#include "model/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>

#include "core/error.h"
#include "core/numbers.h"
#include "core/refusal.h"

namespace pagedinfer {
namespace {

using simdjson::dom::element;

constexpr int64_t kMaxRank = 1 << 20, kMaxLayer = 1 << 20;
constexpr double kMaxAlpha = 1e12;

// Fields that are read, or that have no effect on the merged weights. fan_in_fan_out is for layers
// that no family here has; settings of the training and of its start have no effect afterwards.
constexpr std::string_view kKnown[] = {"alpha_pattern",
                                       "auto_mapping",
                                       "base_model_name_or_path",
                                       "bias",
                                       "corda_config",
                                       "ensure_weight_tying",
                                       "eva_config",
                                       "exclude_modules",
                                       "fan_in_fan_out",
                                       "inference_mode",
                                       "init_lora_weights",
                                       "layers_pattern",
                                       "layers_to_transform",
                                       "loftq_config",
                                       "lora_alpha",
                                       "lora_dropout",
                                       "lora_ga_config",
                                       "megatron_core",
                                       "peft_type",
                                       "peft_version",
                                       "qalora_group_size",
                                       "r",
                                       "rank_pattern",
                                       "revision",
                                       "target_modules",
                                       "target_parameters",
                                       "task_type",
                                       "use_rslora"};

bool is_off(element value) {
  bool truth = false;
  double number = 0;
  std::string_view text;
  simdjson::dom::array list;
  simdjson::dom::object object;
  if (value.get(truth) == simdjson::SUCCESS) return !truth;
  if (value.get(number) == simdjson::SUCCESS) return number == 0;
  if (value.get(text) == simdjson::SUCCESS) return text.empty();
  if (value.get(list) == simdjson::SUCCESS) return list.size() == 0;
  if (value.get(object) == simdjson::SUCCESS) return object.size() == 0;
  return value.is_null();
}

bool is_name_or_end(std::string_view name, std::string_view end) {
  if (name == end) return true;
  return name.size() > end.size() && name.ends_with(end) &&
         name[name.size() - end.size() - 1] == '.';
}

bool is_plain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

// Matches names that end with the key, which is a pattern, alone or after a point.
NamePattern pattern_of_ends(const JsonObject& object, std::string_view key) {
  try {
    return NamePattern(fmt::format("(.*\\.)?({})", key));
  } catch (const Error& error) {
    object.fail(key, error.what());
  }
}

int64_t read_rank(const JsonObject& from, std::string_view key) {
  return from.find_integer(key, 1, kMaxRank).value_or(8);
}

double read_alpha(const JsonObject& from, std::string_view key) {
  return from.find_number(key, -kMaxAlpha, kMaxAlpha).value_or(8);
}

}  // namespace

AdapterConfig::AdapterConfig(const JsonObject& config) : config_(config) {
  refuse_variants();
  read([&] { rank_ = read_rank(config, "r"); });
  read([&] { alpha_ = read_alpha(config, "lora_alpha"); });
  read([&] { is_rank_stabilized_ = config.find_bool("use_rslora").value_or(false); });
  read_patterns("rank_pattern", read_rank, ranks_);
  read_patterns("alpha_pattern", read_alpha, alphas_);
  read([&] { parameters_ = config.strings("target_parameters"); });
  read([&] {
    if (parameters_.empty() && !config.has("target_modules")) {
      config.refuse("target_modules", "", "the names of modules, or a pattern");
    }
    targets_ = read_names("target_modules");
  });
  read([&] { excluded_ = read_names("exclude_modules"); });
  read_layers();
}

template <class T>
void AdapterConfig::read_patterns(std::string_view key,
                                  T (*read_one)(const JsonObject&, std::string_view),
                                  Patterns<T>& patterns) {
  read([&] {
    const std::optional<JsonObject> object = config_.find_object(key);
    if (!object) return;
    for (const auto field : object->fields()) {
      read([&] {
        const T value = read_one(*object, field.key);
        patterns.emplace_back(pattern_of_ends(*object, field.key), value);
      });
    }
  });
}

void AdapterConfig::refuse_variants() {
  const std::string type = config_.find_string("peft_type").value_or("");
  if (type != "LORA") {
    config_.refuse("peft_type", shortened(type), fmt::format("LORA{}", kMergeElsewhere));
  }
  for (const auto field : config_.fields()) {
    if (std::ranges::find(kKnown, field.key) != std::end(kKnown) || is_off(field.value)) continue;
    config_.keep([&] {
      config_.refuse(field.key, field.value,
                     fmt::format("nothing: what it asks for is not supported{}", kMergeElsewhere));
    });
  }
  config_.keep([&] {
    const std::string bias = config_.find_string("bias").value_or("none");
    if (bias == "none") return;
    config_.refuse("bias", shortened(bias), fmt::format("none{}", kMergeElsewhere));
  });
  const auto start = config_.find("init_lora_weights");
  std::string_view name;
  if (!start || start->is_bool()) return;
  const bool is_text = start->get(name) == simdjson::SUCCESS;
  if (is_text && (name == "gaussian" || name == "eva" || name == "orthogonal")) return;
  config_.keep([&] {
    config_.refuse("init_lora_weights", *start,
                   fmt::format("one that leaves the model's weights as they are (true, gaussian, "
                               "eva, orthogonal){}",
                               kMergeElsewhere));
  });
}

AdapterConfig::Names AdapterConfig::read_names(std::string_view key) const {
  const auto value = config_.find(key);
  if (!value) return {};
  std::string_view text;
  if (value->get(text) != simdjson::SUCCESS) return {.key = key, .listed = config_.strings(key)};
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (key == "target_modules" && lower == "all-linear") return {.key = key, .is_all_linear = true};
  Names names = {.key = key};
  try {
    if (!text.empty()) names.pattern.emplace(text);
  } catch (const Error& error) {
    config_.fail(key, error.what());
  }
  return names;
}

void AdapterConfig::read_layers() {
  read([&] { layers_ = config_.one_or_more("layers_to_transform", 0, kMaxLayer); });
  read([&] {
    const auto lists = config_.find("layers_pattern");
    if (lists && lists->is_string()) {
      layer_lists_ = {config_.string("layers_pattern")};
      if (layer_lists_.front().empty()) layer_lists_.clear();
    } else {
      layer_lists_ = config_.strings("layers_pattern");
    }
    for (const std::string& list : layer_lists_) {
      if (is_plain(list)) continue;
      config_.refuse("layers_pattern", shortened(list), "the name of a list of layers");
    }
  });
  read([&] {
    if (layers_.empty() || !(targets_.pattern || targets_.is_all_linear)) return;
    config_.fail("layers_to_transform", "is there, but target_modules is not a list");
  });
}

// `key`: of the field that has the pattern.
bool AdapterConfig::matches(std::string_view key, const NamePattern& pattern,
                            std::string_view module) const {
  try {
    return pattern.matches(module);
  } catch (const Error& error) {
    config_.fail(key, error.what());
  }
}

bool AdapterConfig::has(const Names& names, const AdaptedModule& module) const {
  if (names.is_all_linear) {
    return module.kind == AdaptedModule::Kind::kLayer ||
           module.kind == AdaptedModule::Kind::kExpert;
  }
  if (names.pattern) return matches(names.key, *names.pattern, module.name);
  return std::ranges::any_of(
      names.listed, [&](const std::string& end) { return is_name_or_end(module.name, end); });
}

// A layer's number is the first number after the name of a list of layers. If no such names are
// given, it is the first number after any two names.
bool AdapterConfig::is_in_layers(std::string_view module) const {
  if (layers_.empty()) return true;
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= module.size();) {
    const size_t end = std::min(module.find('.', begin), module.size());
    parts.push_back(module.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto number_behind = [&](std::string_view list) -> std::optional<int64_t> {
    for (size_t i = list.empty() ? 2 : 1; i + 1 < parts.size(); ++i) {
      const auto number = read_number<int64_t>(parts[i]);
      if (number && *number >= 0 && (list.empty() || parts[i - 1] == list)) return number;
    }
    return std::nullopt;
  };
  std::optional<int64_t> number;
  if (layer_lists_.empty()) number = number_behind("");
  for (const std::string& list : layer_lists_) {
    number = number_behind(list);
    if (number) break;
  }
  return number && std::ranges::find(layers_, *number) != layers_.end();
}

bool AdapterConfig::changes(const AdaptedModule& module) const {
  if (!has(targets_, module) || has(excluded_, module)) return false;
  // In PEFT the choice of layers has no effect on a module whose whole name is a target.
  return std::ranges::find(targets_.listed, module.name) != targets_.listed.end() ||
         is_in_layers(module.name);
}

// The choice of layers and excluded modules have no effect on parameters in PEFT.
bool AdapterConfig::changes_parameter(std::string_view parameter) const {
  return std::ranges::any_of(
      parameters_, [&](const std::string& end) { return is_name_or_end(parameter, end); });
}

int64_t AdapterConfig::rank_of(std::string_view module) const {
  for (const auto& [pattern, rank] : ranks_) {
    if (matches("rank_pattern", pattern, module)) return rank;
  }
  return rank_;
}

float AdapterConfig::scale_of(std::string_view module) const {
  const auto found = std::ranges::find_if(
      alphas_, [&](const auto& entry) { return matches("alpha_pattern", entry.first, module); });
  const double alpha = found == alphas_.end() ? alpha_ : found->second;
  const auto rank = static_cast<double>(rank_of(module));
  return static_cast<float>(alpha / (is_rank_stabilized_ ? std::sqrt(rank) : rank));
}

void AdapterConfig::refuse_turned_stacks() const {
  const std::string version = config_.find_string("peft_version").value_or("");
  const bool is_old = version.starts_with("0.17.") || version.starts_with("0.18.");
  if (!is_old && version != "0.19.0") return;
  config_.complain("peft_version", shortened(version),
                   "0.19.1 or later: before, inputs and outputs of experts were exchanged, which "
                   "square matrices do not show");
}

void AdapterConfig::check_targets(const std::vector<AdaptedModule>& modules,
                                  const std::vector<std::string>& parameters) const {
  for (const std::string& end : parameters_) {
    const auto is_meant = [&](const std::string& name) { return is_name_or_end(name, end); };
    if (std::ranges::any_of(parameters, is_meant)) continue;
    config_.complain(
        "target_parameters", shortened(end),
        fmt::format("a parameter of the model that is one matrix, or one of each expert"
                    "{}",
                    kMergeElsewhere));
  }
  const auto expect_one = [&](std::string_view shown, const auto& is_meant) {
    if (std::ranges::any_of(modules, is_meant)) return;
    config_.complain("target_modules", shown, "a matrix of the model, which it does not name");
  };
  for (const std::string& end : targets_.listed) {
    expect_one(shortened(end),
               [&](const AdaptedModule& module) { return is_name_or_end(module.name, end); });
  }
  if (!targets_.listed.empty()) return;
  const bool is_text = targets_.pattern || targets_.is_all_linear;
  if (!is_text && !parameters_.empty()) return;
  expect_one(shortened(is_text ? config_.string("target_modules") : ""),
             [&](const AdaptedModule& module) { return has(targets_, module); });
}

}  // namespace pagedinfer
