#include "grammar/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

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
  if (whitespace) {
    return xgrammar::Grammar::FromJSONSchema(schema, true, std::nullopt, std::nullopt, true,
                                             kMaxSpaces);
  }
  return xgrammar::Grammar::FromJSONSchema(schema, false, std::nullopt, std::pair(",", ":"), true);
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
