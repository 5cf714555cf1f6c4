#include "load/default_form.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/shortened.h"
#include "core/utf8.h"
#include "grammar/form_compiler.h"
#include "io/mapped_file.h"

namespace pagedinfer {
namespace {

std::string text_of_file(std::string_view flag, const std::string& path) {
  try {
    const MappedFile file(path);
    const auto bytes = file.bytes();
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_utf8(text)) throw Error(fmt::format("{}: is not UTF-8", shortened(path)));
    return text;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()));
  }
}

}  // namespace

AnswerForm form_of_flags(const Config& config) {
  AnswerForm form = {.whitespace = config.json_whitespace};
  if (config.json_schema) {
    form.kind = FormKind::kJsonSchema;
    form.texts = {text_of_file("--json-schema", *config.json_schema)};
  } else if (config.regex) {
    form.kind = FormKind::kRegex;
    form.texts = {*config.regex};
  } else if (!config.choices.empty()) {
    form.kind = FormKind::kChoices;
    form.texts = config.choices;
  } else if (config.grammar) {
    form.kind = FormKind::kGrammar;
    form.texts = {text_of_file("--grammar", *config.grammar)};
  }
  return form;
}

void check_form_of_flags(const Config& config) {
  const AnswerForm form = form_of_flags(config);
  if (form.is_free()) return;
  FormCompiler compiler([] { return std::vector<std::string>{"a"}; });
  if (const Result<CompiledForm> compiled = compiler.compile(form); !compiled) {
    throw Error(fmt::format("{}: {}", flag_of_form(config), compiled.error().message));
  }
}

std::string flag_of_form(const Config& config) {
  if (config.json_schema) {
    return fmt::format("--json-schema {}", shortened(*config.json_schema));
  }
  if (config.regex) return fmt::format("--regex {}", shortened(*config.regex));
  if (!config.choices.empty()) return "--choices";
  if (config.grammar) return fmt::format("--grammar {}", shortened(*config.grammar));
  return "";
}

}  // namespace pagedinfer
