#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace pagedinfer {

constexpr size_t kMaxSchemaBytes = 64 << 10;
constexpr int kMaxSchemaDepth = 32;      // schemas within schemas
constexpr int64_t kMaxCounted = 10'000;  // characters of a string, items of an array
constexpr int64_t kMaxOptional = 256;    // properties of an object; compiling takes their cube

constexpr int kMaxTags = 8;                     // discriminators around a value
constexpr size_t kMaxRewrittenBytes = 1 << 20;  // of RewrittenSchema::text

// A character of a string whose length is bounded, as a pattern: none that JSON escapes.
constexpr std::string_view kStringCharacter = R"([^"\\\u0000-\u001f\ud800-\udfff])";

// The library makes a pattern of up to 128 of them. Longer strings have the pattern kLengthMark and
// "MIN,MAX" or "MIN,", which schema_grammar.cpp replaces.
constexpr int64_t kMaxCharactersOfPattern = 128;
constexpr std::string_view kLengthMark = "as many characters of a string as ";

// A schema within another one: its path, in which definition, and where it stands in the text.
struct SchemaPart {
  std::string path;
  int definition;
  size_t begin, end;
};

// A schema as the library gets it, with its parts; of each definition the inner ones come first. It
// is {"$ref":"#/$defs/0","$defs":{...}}: definition 0 is the schema itself, and all refer to others
// as "#/$defs/NUMBER".
struct RewrittenSchema {
  std::string text = {};
  std::vector<SchemaPart> parts = {};
};

// Rewrites a JSON schema so that the library enforces all that it asks for. The library
// drops much in silence: a keyword or combination that is not on the list of
// docs/structured_outputs.md is the error unsupported_schema, with its path. A schema that is no
// schema, or beyond the limits, is invalid_form.
Result<RewrittenSchema> rewrite_schema(std::string_view schema);

}  // namespace pagedinfer
