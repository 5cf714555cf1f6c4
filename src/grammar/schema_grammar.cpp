#include "grammar/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/json.h"
#include "core/numbers.h"
#include "grammar/library_messages.h"

namespace pagedinfer {

namespace {

// What the library says of a schema, without what it would do about it; "" if nothing.
std::string complaint(const std::string& schema, bool whitespace) {
  const LibraryMessages messages;
  std::string text;
  try {
    static_cast<void>(grammar_of_schema(schema, whitespace));
    text = messages.first_warning();
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.substr(0, text.find(';'));
}

// Writes the lengths of long strings into rules that the library has made of a schema. As patterns
// they would take the square of their length to compile; and of those that may be shorter than 128
// each mask would be made anew, for 50 ms, but for a budget of characters.
std::string with_lengths(const std::string& rules) {
  constexpr std::string_view kEnd = R"(", json_string=true))";
  const std::string begin = fmt::format("Regex(\"{}", kLengthMark);
  std::string out, budgets;
  size_t at = 0, next = 0;
  for (int number = 0; (next = rules.find(begin, at)) != rules.npos; ++number) {
    const size_t first = next + begin.size();
    const size_t end = rules.find(kEnd, first);
    CHECK(end != rules.npos);
    const std::string_view counts = std::string_view(rules).substr(first, end - first);
    const size_t comma = counts.find(',');
    const int64_t min = read_number<int64_t>(counts.substr(0, comma)).value();
    const auto max = read_number<int64_t>(counts.substr(comma + 1));
    out.append(rules, at, next - at);
    at = end + kEnd.size();
    if (!max || min == *max) {
      out += fmt::format("{}{{{}}}", kStringCharacter, counts);
      continue;
    }
    const std::string name = fmt::format("budget_of_characters_{}", number);
    if (min > 0) out += fmt::format("{}{{{},{}}} ", kStringCharacter, min, min);
    out += name;
    budgets += fmt::format("\n{}[max_chars={}] ::= {}*\n", name, *max - min, kStringCharacter);
  }
  return out.append(rules, at) + budgets;
}

std::string_view text_of(const RewrittenSchema& schema, const SchemaPart& part) {
  return std::string_view(schema.text).substr(part.begin, part.end - part.begin);
}

bool has_reference(std::string_view text) { return text.find(R"("$ref")") != text.npos; }

// A part as a schema of its own, with the definitions if it refers to any.
std::string alone(const RewrittenSchema& schema, const SchemaPart& part) {
  constexpr std::string_view kBeforeDefinitions = R"({"$ref":"#/$defs/0","$defs":{)";
  const std::string_view own = text_of(schema, part);
  if (!has_reference(own)) return std::string(own);
  return fmt::format(R"({{"$ref":"#/$defs/part","$defs":{{"part":{},{})", own,
                     std::string_view(schema.text).substr(kBeforeDefinitions.size()));
}

}  // namespace

xgrammar::Grammar grammar_of_schema(const std::string& schema, bool whitespace) {
  // No more than what a person would write, or a model could fill its answer with spaces.
  constexpr int kMaxSpaces = 16;
  using xgrammar::Grammar;
  const Grammar grammar =
      whitespace
          ? Grammar::FromJSONSchema(schema, true, std::nullopt, std::nullopt, true, kMaxSpaces)
          : Grammar::FromJSONSchema(schema, false, std::nullopt, std::pair(",", ":"), true);
  const bool has_long_strings = schema.find(kLengthMark) != schema.npos;
  return has_long_strings ? Grammar::FromEBNF(with_lengths(grammar.ToString())) : grammar;
}

std::string fault_of_schema(const RewrittenSchema& schema, bool whitespace) {
  constexpr size_t kMaxBytes = 4 << 20;  // that are looked at
  std::vector<SchemaPart> parts = schema.parts;
  // A part that refers to a definition has its faults too. Definitions are numbered as references
  // to them are met.
  std::ranges::stable_sort(parts, {}, [&](const SchemaPart& part) {
    return std::pair(has_reference(text_of(schema, part)), -part.definition);
  });
  size_t num_bytes = 0;
  for (const SchemaPart& part : parts) {
    const std::string text = alone(schema, part);
    num_bytes += text.size();
    if (num_bytes > kMaxBytes) break;
    if (const std::string found = complaint(text, whitespace); !found.empty()) {
      return fmt::format("{}: {}", part.path, found);
    }
  }
  return "";
}

}  // namespace pagedinfer
