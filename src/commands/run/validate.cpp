#include "commands/run/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "commands/output_paths.h"
#include "core/error.h"
#include "core/refusal.h"
#include "intake/chat_prompt.h"
#include "io/file_names.h"
#include "load/answer_forms.h"
#include "load/backends.h"
#include "load/model_path.h"
#include "model/adapter.h"
#include "request/input_lines.h"
#include "request/request_parser.h"
#include "settings/rules.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

void check_device(const Config& config) {
  if (config.device == Config::Device::kAuto) return;
  const BackendInfo& backend = backend_of(config.device).info;
  if (const std::string problem = backend.problem(); !problem.empty()) {
    throw Error(fmt::format("--device {}: {}; --device cpu works without", backend.name, problem));
  }
}

// A file that a flag names, or that a run makes beside such a file.
struct Role {
  const char* flag;
  std::string path;
  const char* whose = "names";  // what the flag does with it
};

void check_resume(const Config& config, const Paths& paths) {
  if (!config.resume) return;
  if (is_stream(config.input)) {
    throw Error(fmt::format(
        "--resume: --input {} cannot be read a second time from its start; put it into a file",
        config.input));
  }
  if (is_stream(paths.output)) {
    throw Error(fmt::format(
        "--resume: --output {} does not keep what was written to it; give a file", paths.output));
  }
}

// Every file that the run opens or makes. The model's weights are not among them.
std::vector<Role> roles_of(const Config& config, const Paths& paths) {
  std::vector<Role> roles = {{"--output", paths.output}};
  if (!is_stream(paths.output)) {
    roles.push_back({"--output", part_of(paths.output), "makes beside its file"});
    roles.push_back({"--output", run_of(paths.output), "makes beside its file"});
  }
  if (!paths.made.empty()) roles.push_back({"--output", paths.made});
  if (config.input != "-") roles.push_back({"--input", config.input});
  if (!paths.stats.empty()) roles.push_back({"--stats", paths.stats});
  if (!paths.summary.empty()) {
    roles.push_back({"--stats", paths.summary, "makes beside its file"});
  }
  if (!config.errors.empty()) roles.push_back({"--errors", config.errors});
  if (!config.trace.empty()) roles.push_back({"--trace", config.trace});
  if (!config.chat_template.empty() && config.chat_template != "none") {
    roles.push_back({"--chat-template", config.chat_template});
  }
  const auto add_template = [&](const char* flag, std::string_view given) {
    if (auto file = template_file(given)) roles.push_back({flag, std::move(*file)});
  };
  add_template("--prompt-template", config.prompt_template.value_or(""));
  for (const std::string& message : config.message_template) {
    add_template("--message-template", std::string_view(message).substr(message.find('=') + 1));
  }
  if (config.json_schema) roles.push_back({"--json-schema", *config.json_schema});
  if (config.grammar) roles.push_back({"--grammar", *config.grammar});
  if (config.lora) {
    for (const char* const name : {kAdapterConfig, kAdapterWeights}) {
      roles.push_back({"--lora", fmt::format("{}/{}", *config.lora, name)});
    }
  }
  return roles;
}

// The directory of the model; nullopt if it does not exist, which loading will report.
std::optional<std::string> model_of(const Config& config) {
  try {
    return find_model(config.model, program_path());
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_of_model(const std::string& path, const std::string& dir) {
  namespace fs = std::filesystem;
  if (same_file(path, dir)) return true;  // a GGUF file
  if (fs::path(path).extension() == ".safetensors" &&
      same_file(dir + "/config.json", (fs::path(path).parent_path() / "config.json").string())) {
    return true;
  }
  return std::any_of(std::begin(kModelFiles), std::end(kModelFiles), [&](std::string_view name) {
    return same_file(path, (fs::path(dir) / name).string());
  });
}

void check_roles(const Config& config, const Paths& paths) {
  const std::vector<Role> roles = roles_of(config, paths);
  const std::optional<std::string> model = model_of(config);
  for (size_t i = 0; i < roles.size(); ++i) {
    const Role& role = roles[i];
    for (size_t j = 0; j < i; ++j) {
      if (!same_file(role.path, roles[j].path)) continue;
      throw Error(fmt::format("{} {}: is what {} {}; give one of them another name", role.flag,
                              shortened(role.path), roles[j].flag, roles[j].whose));
    }
    const bool is_read = role.path == config.input || role.path == config.chat_template;
    if (model && !is_read && is_of_model(role.path, *model)) {
      throw Error(fmt::format("{} {}: is a file of --model {}; give another name", role.flag,
                              shortened(role.path), shortened(*model)));
    }
  }
}

void check_key_names(const Config& config) {
  const auto check = [](const char* flag, const char* key, const std::string& name) {
    if (may_stand_for(key, name)) return;
    throw Error(fmt::format(
        "{0} {1}: a line's {1} says something else; expected the key of its {2}", flag, name, key));
  };
  check("--prompt-field", "prompt", config.prompt_field);
  check("--id-field", "id", config.id_field);
  if (config.prompt_field == config.id_field) {
    throw Error(
        fmt::format("--id-field {}: is --prompt-field too; expected another key", config.id_field));
  }
}

void check_files(const Config& config) {
  check_key_names(config);
  if (!config.json_columns.empty() && !choice_of(config).table) {
    throw Error(
        fmt::format("--json-columns: --input {} has lines of JSON and no columns; give a "
                    "table, or --input-format csv or tsv",
                    shortened(config.input)));
  }
  const Paths paths = resolve_paths(config);
  check_output_name("--output", config.output, true);
  if (config.keep_jsonl && paths.made.empty()) {
    throw Error(fmt::format("--keep-jsonl: --output {} is of JSON lines anyway; leave it out",
                            shortened(paths.output)));
  }
  check_output_name("--stats", paths.stats);
  check_output_name("--trace", config.trace);
  check_output_name("--errors", config.errors);
  if (!config.errors.empty() && (is_stream(paths.output) || is_stream(config.errors))) {
    throw Error(
        fmt::format("--errors {}: is made of the output when that is complete; give both a "
                    "file, not a pipe or device",
                    shortened(config.errors)));
  }
  check_resume(config, paths);
  if (config.profile && config.quiet && paths.summary.empty()) {
    throw Error("--profile: with --quiet and no --stats it would not be shown; leave --quiet out");
  }
  check_roles(config, paths);
}

}  // namespace

void validate(const Config& config) {
  check_values(config);
  check_rules(config);
  check_device(config);
  check_files(config);
  check_form_of_flags(config);
  std::ignore = row_template_of(config);  // throws if it is no template
}

}  // namespace pagedinfer
