#include "commands/run/run_fingerprint.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "commands/run/run_info.h"
#include "core/hash.h"
#include "core/json.h"
#include "io/mapped_file.h"
#include "io/open_file.h"
#include "load/model_path.h"
#include "settings/table.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

std::string whole_file(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return fmt::format("{:016x}", hash_bytes(0, text));
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

}  // namespace

Fingerprint fingerprint_of(const Config& config, const LoadedModel& model, const RunPlan& plan) {
  Fingerprint fingerprint;
  Config used = used_config(config, model, plan);
  used.chat_template = fmt::format("{:016x}", template_hash(model.chat.format));
  for (std::optional<std::string>* const path : {&used.json_schema, &used.grammar}) {
    if (*path) *path = fmt::format("{:016x}", hash_bytes(0, model.defaults.form.texts[0]));
  }
  for (const Setting& setting : kSettings) {
    if (setting.effect != Effect::kChangesRecords || !setting.is_flag) continue;
    const Value value = setting.field.get(used);
    if (std::holds_alternative<std::monostate>(value)) continue;
    std::string text = text_of(setting, value);
    if (setting.field.kind == Kind::kText) {  // quoted: the text "none" is not "no text"
      text.clear();
      append_json_string(text, std::get<std::string>(value));
    }
    fingerprint.set(setting.key, text);
  }
  if (const auto length = rope_length(model.opened.spec, plan.limits.max_model_len)) {
    fingerprint.set("rope", *length);
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

}  // namespace pagedinfer
