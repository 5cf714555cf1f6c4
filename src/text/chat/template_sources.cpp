#include "text/chat/template_sources.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "io/json_file.h"
#include "io/mapped_file.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kDefault = "default";

// A string, a list of templates with names, of which the last of a name counts, or an object with
// names as keys.
std::vector<TemplateSource> templates_in(const JsonObject& root, const std::string& file) {
  namespace dom = simdjson::dom;
  constexpr std::string_view kKey = "chat_template";
  dom::array list;
  const auto value = root.find(kKey);
  if (dom::object object; value && value->get(object) == simdjson::SUCCESS) {
    if (object.size() == 0) root.fail(kKey, "is an object without templates");
    std::vector<TemplateSource> sources;
    for (const auto [name, text] : object) {
      if (!text.is_string()) {
        root.fail(kKey, "is an object, and not each of its values is a string");
      }
      sources.push_back({std::string(name), fmt::format("{}, '{}'", file, name),
                         std::string(text.get_string().value_unsafe()), std::string(kKey)});
    }
    return sources;
  }
  if (!value || value->get(list) != simdjson::SUCCESS) {
    std::optional<std::string> text = root.find_string(kKey);
    if (!text) return {};
    return {{std::string(kDefault), file, std::move(*text), std::string(kKey)}};
  }
  std::vector<TemplateSource> sources;
  for (const dom::element named : list) {
    std::string_view name, text;
    if (named["name"].get(name) != simdjson::SUCCESS ||
        named["template"].get(text) != simdjson::SUCCESS) {
      root.fail(kKey, "is a list, and not each of its items has a name and a template");
    }
    std::erase_if(sources, [&](const TemplateSource& source) { return source.name == name; });
    sources.push_back({std::string(name), fmt::format("{}, '{}'", file, name), std::string(text),
                       std::string(kKey)});
  }
  return sources;
}

// `path` is for messages.
TemplateSource checked_template(const std::string& path, std::string text, std::string name,
                                std::string origin) {
  if (!simdjson::validate_utf8(text)) {
    throw Error(fmt::format("{}: is not UTF-8, expected a chat template", path));
  }
  return {std::move(name), std::move(origin), std::move(text)};
}

// `file`: its name in the model.
TemplateSource template_of(const ModelStore& model, std::string_view file, std::string name) {
  return checked_template(model.path_of(file), model.text(file), std::move(name),
                          std::string(file));
}

std::vector<TemplateSource> templates_of_files(const ModelStore& model) {
  constexpr std::string_view kFile = "chat_template.jinja", kEnd = ".jinja";
  constexpr std::string_view kFolder = "additional_chat_templates";
  std::vector<TemplateSource> sources;
  if (model.has(kFile)) sources.push_back(template_of(model, kFile, std::string(kDefault)));
  for (const std::string& name : model.names_in(kFolder)) {
    if (!name.ends_with(kEnd)) continue;
    TemplateSource source = template_of(model, fmt::format("{}/{}", kFolder, name),
                                        name.substr(0, name.size() - kEnd.size()));
    std::erase_if(sources, [&](const TemplateSource& other) { return other.name == source.name; });
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace

std::string location_of(const TemplateSource& source) {
  return source.key.empty() ? source.origin : fmt::format("{} of {}", source.key, source.origin);
}

TemplateSource read_template(const std::string& path, std::string name, std::string origin) {
  return checked_template(path, std::string(MappedFile(path).text()), std::move(name),
                          std::move(origin));
}

std::vector<TemplateSource> find_templates(const ModelStore& model) {
  if (auto sources = templates_of_files(model); !sources.empty()) return sources;
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    if (!model.has(name)) continue;
    const JsonFile file = model.json(name);
    if (auto sources = templates_in(file.root(), name); !sources.empty()) return sources;
  }
  return {};
}

const TemplateSource* choose_template(const std::vector<TemplateSource>& sources, bool has_tools) {
  for (const std::string_view name : {std::string_view("tool_use"), kDefault}) {
    if (name != kDefault && !has_tools) continue;
    const auto found = std::ranges::find(sources, name, &TemplateSource::name);
    if (found != sources.end()) return &*found;
  }
  return nullptr;
}

}  // namespace pagedinfer
