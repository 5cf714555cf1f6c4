#include "text/chat/row_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "core/utf8.h"
#include "io/mapped_file.h"
#include "jinja/from_json.h"

namespace pagedinfer {

using jinja::Dict;
using jinja::TemplateError;
using jinja::Value;

namespace {

constexpr std::string_view kRow = "row";  // the variable of the whole row
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string text_of_file(std::string_view flag, const std::string& path) {
  try {
    const MappedFile file(path);
    std::string_view text = file.text();
    if (!is_utf8(text)) throw Error(fmt::format("{}: is not UTF-8, expected a template", path));
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    return std::string(text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()));
  }
}

// "fewshot.txt: line 3: ", without what is not known.
std::string file_and_line(const std::optional<std::string>& file, int line) {
  return fmt::format("{}{}", file ? fmt::format("{}: ", shortened(*file)) : "",
                     line > 0 ? fmt::format("line {}: ", line) : "");
}

std::string names_of(const Dict& row) {
  constexpr size_t kMaxShown = 20;
  std::string names;
  for (size_t i = 0; i < std::min(row.size(), kMaxShown); ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : ", ", shortened(row.entries()[i].first.text()));
  }
  if (names.empty()) return "no column";
  return row.size() > kMaxShown ? names + ", ..." : names;
}

RequestError error_of(const TemplateError& error, const std::string& place, const Dict& row) {
  using Reason = TemplateError::Reason;
  if (error.reason == Reason::kRaised) {
    return {"template_failed", fmt::format("{} refuses the row: {}", place, error.what())};
  }
  const std::string where =
      fmt::format("{}{}", place, error.line > 0 ? fmt::format(", line {}", error.line) : "");
  if (error.reason == Reason::kUndefined) {
    return {"undefined_column",
            fmt::format("{}: {}; the row has {}", where, error.what(), names_of(row))};
  }
  return {"template_failed", fmt::format("{}: {}", where, error.what())};
}

MessageText message_of(const std::string& role, jinja::Rendered rendered) {
  MessageText message = {.role = role, .text = std::move(rendered.text)};
  for (const jinja::Span& span : rendered.from_values) {
    message.written.push_back({span.begin, span.end});
  }
  return message;
}

}  // namespace

std::optional<std::string> template_file(std::string_view given) {
  if (!given.starts_with('@')) return std::nullopt;
  return std::string(given.substr(1));
}

void RowTemplate::add(std::string role, std::string_view flag, std::string_view given) {
  const std::optional<std::string> file = template_file(given);
  const std::string text = file ? text_of_file(flag, *file) : std::string(given);
  std::string place =
      role.empty() ? "the prompt template" : fmt::format("the template of the {} message", role);
  if (file) place += fmt::format(" ({})", shortened(*file));
  text_ += fmt::format("{}\n{}\n", role, text);
  try {
    parts_.push_back({std::move(role), std::move(place), jinja::Template::parse(text)});
  } catch (const TemplateError& error) {
    throw Error(fmt::format("{}: {}{}", flag, file_and_line(file, error.line), error.what()));
  }
}

void RowTemplate::check_reads_columns(std::string_view flag, std::string_view example) const {
  if (text_.find("{{") != std::string::npos || text_.find("{%") != std::string::npos) return;
  throw Error(
      refusal(flag, "no {{ in the template",
              fmt::format("one that reads columns, as in {}; @FILE reads a file", example)));
}

RowTemplate RowTemplate::of_prompt(std::string_view prompt) {
  constexpr std::string_view kFlag = "--prompt-template";
  RowTemplate result;
  result.add("", kFlag, prompt);
  result.check_reads_columns(fmt::format("{} {}", kFlag, shortened(prompt)), "{{ question }}");
  return result;
}

RowTemplate RowTemplate::of_messages(std::span<const std::string> messages) {
  constexpr std::string_view kFlag = "--message-template", kExample = "user={{ question }}";
  RowTemplate result;
  for (const std::string& message : messages) {
    const size_t end = message.find('=');
    const std::string role = message.substr(0, end);
    const bool is_role = !role.empty() && std::ranges::all_of(role, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    });
    if (end == std::string::npos || !is_role) {
      throw Error(refusal(kFlag, shortened(message),
                          fmt::format("ROLE=TEXT or ROLE=@FILE, as in {}", kExample)));
    }
    result.add(role, kFlag, std::string_view(message).substr(end + 1));
  }
  result.check_reads_columns(fmt::format("{} {}", kFlag, shortened(messages.front())), kExample);
  return result;
}

Result<std::vector<MessageText>> RowTemplate::render(std::string_view row,
                                                     const jinja::DateTime& now) const {
  Value value;
  try {
    value = jinja::from_json(row, /*marked=*/true);
  } catch (const TemplateError& error) {
    return {"template_failed", fmt::format("the row: {}", error.what())};
  }
  Dict variables;
  variables.set(kRow, value);
  for (const auto& [name, column] : value.entries().entries()) variables.set(name.text(), column);
  std::vector<MessageText> messages;
  for (const Part& part : parts_) {
    try {
      messages.push_back(
          message_of(part.role, part.parsed.render(variables, now, {}, jinja::Undefined::kFails)));
    } catch (const TemplateError& error) {
      return error_of(error, part.place, value.entries());
    }
  }
  if (!makes_messages() && messages.front().text.empty()) {
    return {"empty_prompt", fmt::format("{} makes an empty prompt", parts_.front().place)};
  }
  return messages;
}

}  // namespace pagedinfer
