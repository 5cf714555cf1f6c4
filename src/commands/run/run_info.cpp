#include "commands/run/run_info.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/output_paths.h"
#include "core/build_facts.h"
#include "core/hash.h"
#include "core/json.h"
#include "io/mapped_file.h"
#include "io/open_file.h"
#include "load/model_path.h"
#include "model/weights.h"
#include "settings/rules.h"
#include "settings/table.h"
#include "settings/values.h"
#include "text/chat/chat_date.h"

namespace pagedinfer {
namespace {

std::string whole_file(const std::string& path) {
  return fmt::format("{:016x}", hash_bytes(0, MappedFile(path).text()));
}

void add_model(Fingerprint& fingerprint, const std::string& dir,
               const std::vector<WatchedFile>& weights) {
  for (const std::string_view name : kModelFiles) {
    const std::string path = fmt::format("{}/{}", dir, name);
    if (file_exists(path)) fingerprint.set(name, whole_file(path));
  }
  for (const WatchedFile& file : weights) {
    fingerprint.set(file.path().substr(file.path().rfind('/') + 1), file.identity());
  }
}

template <class T>
ConfigEntry::Value list_or_null(const std::vector<T>& list) {
  return list.empty() ? ConfigEntry::Value() : list;
}

// The value in the summary: null if there is none, a text if JSON has no type for it.
ConfigEntry::Value json_value(const Setting& setting, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return nullptr;
  if (const auto* const texts = std::get_if<std::vector<std::string>>(&value)) {
    return list_or_null(*texts);
  }
  if (const auto* const tokens = std::get_if<std::vector<TokenId>>(&value)) {
    return list_or_null(*tokens);
  }
  if (const auto* const on = std::get_if<bool>(&value)) return *on;
  if (const auto* const number = std::get_if<double>(&value)) return *number;
  std::string text = text_of(setting, value);
  // A float becomes the double with the same shortest text: 1.2, not 1.2000000476837158.
  if (std::holds_alternative<float>(value)) return std::stod(text);
  if (setting.kind == Kind::kPath && text.empty()) return nullptr;
  const auto* const integer = std::get_if<int64_t>(&value);
  if (integer != nullptr && setting.choices.empty()) return *integer;
  return text;
}

}  // namespace

Fingerprint fingerprint_of(const Config& config, const ModelPlan& model, const RunPlan& plan) {
  Fingerprint fingerprint;
  Config used = used_config(config, model, plan);
  used.chat_template = fmt::format("{:016x}", template_hash(model.chat.format));
  if (model.chat.rows) {
    const auto hash = fmt::format("{:016x}", hash_bytes(0, model.chat.rows->text()));
    if (used.prompt_template) used.prompt_template = hash;
    if (!used.message_template.empty()) used.message_template = {hash};
  }
  for (std::optional<std::string>* const path : {&used.json_schema, &used.grammar}) {
    if (*path) *path = fmt::format("{:016x}", hash_bytes(0, model.defaults.form.texts[0]));
  }
  for (const Setting& setting : kSettings) {
    if (setting.effect != Effect::kChangesRecords || !setting.is_flag) continue;
    const Value value = setting.field.get(used);
    if (std::holds_alternative<std::monostate>(value)) continue;
    std::string text = text_of(setting, value);
    if (setting.kind == Kind::kText) {  // quoted: the text "none" is not "no text"
      text.clear();
      append_json_string(text, std::get<std::string>(value));
    }
    fingerprint.set(setting.key, text);
  }
  if (const auto length = rope_length(model.opened.spec, plan.limits.max_model_len)) {
    fingerprint.set("rope", *length);
  }
  if (model.quantize == Quantization::kInt4) {
    fingerprint.set("int4_group", std::to_string(kInt4Group));
  }
  // Another kind of GPU, or another cuBLAS, adds up in another order.
  if (!model.backend->info.always_deterministic && config.deterministic) {
    fingerprint.set("gpu", model.ops->arithmetic_name());
  }
  if (const auto& adapter = model.opened.adapter) {
    fingerprint.set("lora adapter_config.json", whole_file(adapter->config_path()));
    fingerprint.set("lora adapter_model.safetensors", model.adapter_file->identity());
  }
  // The model comes after the settings, because the first difference is reported and a setting is
  // easier to mend.
  add_model(fingerprint, model.dir, model.weight_files);
  return fingerprint;
}

Config used_config(const Config& config, const ModelPlan& model, const RunPlan& plan) {
  Config used =
      resolve(config, plan.limits.max_model_len, model.backend->info.usual_step_tokens).config;
  const Paths paths = resolve_paths(config);
  used.output = paths.made.empty() ? paths.output : paths.made;
  used.stats = paths.stats;
  used.served_model_name = model.name;
  used.dtype = model.options.compute;
  used.quantize = model.quantize;
  used.max_model_len = plan.limits.max_model_len;
  used.chat_template = template_origin(model.chat.format);
  used.chat_date = text_of_date(model.chat.format.today);
  used.device = model.backend->device;
  used.deterministic = config.deterministic || model.backend->info.always_deterministic;
  used.threads = model.options.num_threads;
  used.cpu_isa = model.options.cpu_isa;
  used.kv_dtype = plan.kv_type;
  used.block_size = plan.memory.block_size;
  used.num_blocks = plan.memory.num_blocks;
  used.kv_memory = plan.memory.kv_bytes;
  used.sampling.values = model.defaults;
  return used;
}

RunInfo describe_run(const Config& config, const ModelPlan& model, const RunPlan& plan) {
  const Config used = used_config(config, model, plan);
  RunInfo info = {.version = std::string(build_facts().version),
                  .input = config.input,
                  .model = model.dir,
                  .device = model.ops->description()};
  const auto set = [&](std::string_view name, ConfigEntry::Value value) {
    info.config.push_back({std::string(name), std::move(value)});
  };
  for (const Setting& setting : kSettings) {
    set(setting.key, json_value(setting, setting.field.get(used)));
  }
  set("weight_bytes", plan.memory.weight_bytes);
  set("activation_bytes", plan.memory.activation_bytes);
  if (const std::optional<ProductChoices> products = model.ops->product_choices()) {
    set("gpu", model.ops->arithmetic_name());
    set("product_buckets", products->buckets);
    set("product_buckets_fallen_back", products->fallen_back);
  }
  const LengthFloor& floor = model.defaults.floor;
  if (floor.tokens > 0) set("min_new_tokens", int64_t{floor.tokens});
  if (floor.with_prompt > 0) set("min_length", int64_t{floor.with_prompt});
  const ModelSpec& spec = model.opened.spec;
  if (!spec.eos_tokens.empty()) set("end_tokens", spec.eos_tokens);
  if (!model.chat.ends_of_turn.empty()) set("ends_of_turn", model.chat.ends_of_turn);
  const auto set_tokens = [&](std::string_view name, const std::vector<TokenId>& tokens) {
    if (!tokens.empty()) set(name, tokens);
  };
  set_tokens("suppress_tokens", spec.suppressed);
  set_tokens("begin_suppress_tokens", spec.suppressed_first);
  if (spec.forced_end) set("forced_eos_token_id", int64_t{*spec.forced_end});
  if (const auto length = rope_length(spec, plan.limits.max_model_len)) {
    set("rope", std::string(*length));
  }
  info.notes = model.notes;
  const std::vector<std::string> notes =
      resolve(config, plan.limits.max_model_len, model.backend->info.usual_step_tokens).notes;
  info.notes.insert(info.notes.end(), notes.begin(), notes.end());
  return info;
}

}  // namespace pagedinfer
