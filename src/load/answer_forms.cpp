#include "load/answer_forms.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/refusal.h"
#include "core/utf8.h"
#include "grammar/form_compiler.h"
#include "io/mapped_file.h"

namespace pagedinfer {
namespace {

std::string text_of_file(std::string_view flag, const std::string& path) {
  try {
    std::string text(MappedFile(path).text());
    if (!is_utf8(text)) throw Error(fmt::format("{}: is not UTF-8", shortened(path)));
    return text;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()));
  }
}

// Whether an added token is a mark, such as <tool_call>. A model means something else by it than
// its letters, so it is not text.
bool is_mark(const Tokenizer& tokenizer, TokenId token, std::string_view bytes) {
  if (bytes.size() < 3) return false;
  const bool looks_like_one = (bytes.front() == '<' && bytes.back() == '>') ||
                              (bytes.front() == '[' && bytes.back() == ']');
  if (!looks_like_one) return false;
  const std::optional<Tokenizer::AddedPrefix> added = tokenizer.added_prefix(bytes);
  return added && added->id == token && added->size == bytes.size();
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

std::vector<std::string> form_vocabulary(const Tokenizer& tokenizer, int vocab) {
  std::vector<std::string> tokens(static_cast<size_t>(vocab));
  for (TokenId token = 0; token < vocab; ++token) {
    const std::string_view bytes = tokenizer.token_bytes(token);
    if (!is_mark(tokenizer, token, bytes)) tokens[static_cast<size_t>(token)] = bytes;
  }
  return tokens;
}

}  // namespace pagedinfer
