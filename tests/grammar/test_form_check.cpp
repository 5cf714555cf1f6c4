#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/form_check.h"
#include "grammar/regex_check.h"
#include "grammar/schema_check.h"

using namespace pagedinfer;

namespace {

// "CODE PATH" of the error, or "".
std::string refusal_of(std::string_view schema) {
  const Result<RewrittenSchema> rewritten = rewrite_schema(schema);
  if (rewritten) return "";
  const RequestError& error = rewritten.error();
  return fmt::format("{} {}", error.code.name(), error.message.substr(0, error.message.find(": ")));
}

std::string refusal_of(FormKind kind, const std::string& text) {
  const Result<CheckedForm> checked = check_form({.kind = kind, .texts = {text}});
  return checked ? "" : checked.error().message;
}

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("a keyword that the library would drop is refused with its path") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"not": {}})", "#/not"},
      {R"({"if": {}})", "#/if"},
      {R"({"then": {}})", "#/then"},
      {R"({"dependentRequired": {}})", "#/dependentRequired"},
      {R"({"dependentSchemas": {}})", "#/dependentSchemas"},
      {R"({"patternProperties": {}})", "#/patternProperties"},
      {R"({"propertyNames": {}})", "#/propertyNames"},
      {R"({"minProperties": 1})", "#/minProperties"},
      {R"({"unevaluatedItems": false})", "#/unevaluatedItems"},
      {R"({"items": {"contains": {}}})", "#/items/contains"},
      {R"({"uniqueItems": true})", "#/uniqueItems"},
      {R"({"type": "number", "multipleOf": 3})", "#/multipleOf"},
      {R"({"type": "number", "minimum": 0.12345})", "#/minimum"},
      {R"({"uniqueItems": true, "items": {"enum": [1, 2, 3, 4, 5, 6]}})", "#/uniqueItems"},
      {R"({"uniqueItems": true, "items": {"enum": [[1], 2]}})", "#/uniqueItems"},
      {R"({"uniqueItems": true, "items": {"enum": [1], "minimum": 0}})", "#/uniqueItems"},
      {R"({"uniqueItems": true, "items": {"$ref": "#/$defs/b"}})", "#/uniqueItems"},
      {R"({"uniqueItems": true, "items": {"enum": [1, 1.0]}, "minItems": 2})", "#/minItems"},
      {R"({"type": "string", "format": "color"})", "#/format"},
      {R"({"type": "string", "format": "uuid", "minLength": 37})", "#/format"},
      {R"({"type": "string", "format": "email", "maxLength": 20})", "#/format"},
      {R"({"type": "string", "pattern": "a+b*", "minLength": 3})", "#/pattern"},
      {R"({"type": "string", "pattern": "(a|bc)+", "maxLength": 3})", "#/pattern"},
      {R"({"type": "string", "pattern": "a+|b", "maxLength": 3})", "#/pattern"},
      {R"({"type": "string", "pattern": "a{2,}", "maxLength": 1})", "#/pattern"},
      {R"({"type": "string", "pattern": "(ab)*", "minLength": 3, "maxLength": 3})", "#/pattern"},
      {R"({"type": "string", "pattern": "(ab)*", "maxLength": 300})", "#/pattern"},
      {R"({"type": "string", "format": "date", "pattern": "a"})", "#/format"},
      {R"({"allOf": [{}, {}]})", "#/allOf"},
      {R"({"$defs": {"a": {}, "b": {}, "a": {}}})", "#/$defs/a"},
      {R"({"anyOf": [{}, {"oneOf": [{"else": {}}]}]})", "#/anyOf/1/oneOf/0/else"},
      {R"({"anyOf": [{}], "type": "string"})", "#/type"},
      {R"({"$ref": "#/$defs/a", "type": "string", "$defs": {"a": {}}})", "#/type"},
      {R"({"$ref": "other.json"})", "#/$ref"},
      {R"({"$ref": "#/properties/a"})", "#/$ref"},
      {R"({"$defs": {"a": {"not": {}}}, "$ref": "#/$defs/a"})", "#/$defs/a/not"},
      {R"({"properties": {"a": {"$id": "x"}}})", "#/properties/a/$id"},
      {R"({"properties": {}, "additionalProperties": true})", "#/additionalProperties"},
      {R"({"properties": {"a": {}}, "required": ["b"]})", "#/required"},
      {R"({"required": ["b"]})", "#/required"},
      {R"({"minimum": 1, "maxLength": 2})", "#/type"},
      {R"({"enum": ["a"], "minLength": 2})", "#/minLength"},
      {R"({"enum": ["a"], "type": "integer"})", "#/enum"},
      {R"({"prefixItems": [{}], "maxItems": 0})", "#/maxItems"},
      {R"({"prefixItems": [{}], "minItems": 2})", "#/minItems"},
      {R"({"items": [{}]})", "#/items"},
      {R"({"properties": {"a": false}})", "#/properties/a"},
      {R"({"anyOf": [{"$ref": "#"}]})", "#/$ref"},
      {R"({"title": "a", "title": "b"})", "#/title"},
      {R"({"const": 9223372036854775808})", "#/const"}};
  for (const auto& [schema, path] : cases) {
    CAPTURE(schema);
    CHECK(refusal_of(schema) == "unsupported_schema " + path);
  }
}

TEST_CASE("oneOf is taken where no answer can match two of its schemas, and refused elsewhere") {
  const std::string a =
      R"({"type": "object", "properties": {"kind": {"const": "a", "type": "string"},
      "x": {"type": "integer"}}, "required": ["kind"]})";
  const std::string b = R"({"type": "object", "properties": {"kind": {"enum": ["b", "c"]},
      "x": {"type": "integer"}}, "required": ["x"]})";
  const std::string defs = fmt::format(
      R"("$defs": {{"a": {}, "b": {}, "also": {{"$ref": "#/$defs/a"}}, "kinds": {{"enum": ["a"]}},
      "c": {{"properties": {{"kind": {{"allOf": [{{"$ref": "#/$defs/kinds"}}]}}}}}},
      "tree": {{"properties": {{"left": {{"$ref": "#/$defs/tree"}}}}, "required": ["left"]}},
      "list": {{"properties": {{"left": {{"$ref": "#/$defs/list"}}}}, "required": ["left"]}}}})",
      a, b);
  struct Case {
    std::string schemas;
    bool is_taken;
  };
  const Case cases[] = {
      {R"({"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"})", true},
      {R"({"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"})", false},  // {"x": 1}
      {R"({"$ref": "#/$defs/b"}, {"$ref": "#/$defs/also"}, {"type": "null"})", true},
      {R"({"$ref": "#/$defs/a"}, {"$ref": "#/$defs/also"})", false},
      {R"({"$ref": "#/$defs/a"}, {"$ref": "#/$defs/c"})", false},
      {R"({"oneOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}, {"$ref": "#/$defs/b"})", true},
      {R"({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}, {"const": null})", false},
      {R"({"$ref": "#/$defs/tree"}, {"$ref": "#/$defs/list"})", false},
      {R"({"type": "string"}, {"type": ["integer", "null"]}, {"type": "array"})", true},
      {R"({"type": "string", "maxLength": 3}, {"const": 1}, {"const": true})", true},
      {R"({"type": "integer"}, {"type": "number"})", false},
      {R"({"const": 1}, {"enum": [2, 1.0]})", false},
      {R"({"const": {"a": [1, {}]}}, {"const": {"a": [1, []]}})", true},
      {R"({"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1.0}})", false},
      {R"({"const": {"kind": "a"}}, {"$ref": "#/$defs/a"})", false},
      {R"({"const": {"kind": "z"}}, {"$ref": "#/$defs/a"})", true},
      {R"({"const": {}}, {"$ref": "#/$defs/a"})", true},
      {R"({"const": 1.5}, {"type": "integer"})", true},
      {R"({"type": "string"}, {"properties": {"k": {"const": 1}}, "required": ["k"]})", false},
      {R"({}, {"type": "string"})", false},
      // An answer has no other properties than its schema names, but other schemas let them pass.
      {R"({"properties": {"x": {}}, "required": ["x"]}, {"properties": {"y": {}}, "required": ["y"]})",
       true},
      {R"({"properties": {"x": {}}, "required": ["x"]}, {"properties": {"x": {}, "y": {}},
          "required": ["x", "y"]})",
       false},
      {R"({"properties": {"x": {}}, "required": ["x"], "additionalProperties": false},
          {"properties": {"x": {}, "y": {}}, "required": ["x", "y"]})",
       true},
      {R"({"additionalProperties": {}}, {"properties": {"y": {}}, "required": ["y"]})", false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.schemas);
    const std::string refusal =
        refusal_of(fmt::format(R"({{"items": {{"oneOf": [{}]}}, {}}})", c.schemas, defs));
    CHECK(refusal == (c.is_taken ? "" : "unsupported_schema #/items/oneOf"));
  }
  std::string many = R"({"const": 0})";  // too many to compare
  for (int i = 1; i < 2000; ++i) many += fmt::format(R"(, {{"const": {}}})", i);
  CHECK(refusal_of(fmt::format(R"({{"oneOf": [{}]}})", many)) == "invalid_form #/oneOf");
}

TEST_CASE("an answer has the property that a discriminator names, though it has a default") {
  const auto of_kind = [](const std::string& kind, const std::string& more = "") {
    return fmt::format(R"("{0}": {{"type": "object", "properties": {{"kind": {{"const": "{0}",
        "default": "{0}"}}, "x": {{"type": "integer"}}{1}}}, "required": ["x"]}})",
                       kind, more);
  };
  const std::string either = R"({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}])";
  const auto schema_of = [&](const std::string& discriminator) {
    return fmt::format(R"({{"items": {}{}}}, "$defs": {{{}, {}}}}})", either, discriminator,
                       of_kind("a"), of_kind("b", R"(, "y": {"$ref": "#/$defs/a"})"));
  };
  CHECK(refusal_of(schema_of("")) == "unsupported_schema #/items/oneOf");
  CHECK(refusal_of(schema_of(R"(, "discriminator": {"propertyName": "x"})")) ==
        "unsupported_schema #/items/oneOf");
  Result<RewrittenSchema> out =
      rewrite_schema(schema_of(R"(, "discriminator": {"propertyName": "kind",
      "mapping": {"a": "#/$defs/a"}})"));
  REQUIRE(out);
  const auto count_of = [&](std::string_view part) {
    int count = 0;
    for (size_t at = 0; (at = out->text.find(part, at)) != out->text.npos; ++at) ++count;
    return count;
  };
  // Behind "y" no discriminator stands.
  CHECK(count_of(R"("required":["kind","x"])") == 2);
  CHECK(count_of(R"("required":["x"])") == 1);

  // All discriminators around it count.
  const std::string nested =
      fmt::format(R"({{"oneOf": [{}, "discriminator": {{"propertyName": "kind"}}}}, {{"type":
          "null"}}], "discriminator": {{"propertyName": "x"}}, "$defs": {{{}, {}}}}})",
                  either, of_kind("a"), of_kind("b"));
  out = rewrite_schema(nested);
  REQUIRE(out);
  CHECK(count_of(R"("required":["kind","x"])") == 2);
  std::string deep = R"({"$ref": "#/$defs/a"})";
  for (int i = 0; i < 9; ++i) {
    deep = fmt::format(R"({{"oneOf": [{}], "discriminator": {{"propertyName": "n{}"}}}})", deep, i);
  }
  CHECK(refusal_of(fmt::format(R"({{"items": {}, "$defs": {{{}}}}})", deep, of_kind("a")))
            .starts_with("invalid_form #/items/oneOf/0"));

  // A definition for each of many discriminators around it: too much.
  std::string names, uses;
  for (int i = 0; i < 200; ++i) {
    names += fmt::format(R"({}"property_{}": true)", i == 0 ? "" : ", ", i);
  }
  for (int i = 0; i < 500; ++i) {
    uses += fmt::format(R"({}{{"oneOf": [{{"$ref": "#/$defs/a"}}], "discriminator":
        {{"propertyName": "n{}"}}}})",
                        i == 0 ? "" : ", ", i);
  }
  const std::string many = fmt::format(
      R"({{"anyOf": [{}], "$defs": {{"a": {{"properties": {{{}}}, "required": []}}}}}})", uses,
      names);
  REQUIRE(many.size() < kMaxSchemaBytes);
  CHECK(refusal_of(many) == "invalid_form #");
}

TEST_CASE("a schema that is no schema is refused") {
  for (const char* const schema :
       {"", "{", "[]", "3", R"({"type": "text"})", R"({"type": []})", R"({"properties": []})",
        R"({"enum": []})", R"({"anyOf": {}})", R"({"minLength": -1})", R"({"maxItems": 1.5})",
        R"({"$ref": 1})", R"({"$ref": "#/$defs/a"})", R"({"required": "a"})",
        R"({"pattern": 1})"}) {
    CAPTURE(schema);
    CHECK(refusal_of(schema).starts_with("invalid_form"));
  }
}

TEST_CASE("what has no effect in a schema, and what is enforced, passes") {
  for (
      const char* const schema :
      {"{}", "true", R"({"title": "x", "$schema": "s", "default": 1, "examples": []})",
       R"({"type": ["string", "null"], "maxLength": 3, "uniqueItems": false, "minimum": 0.12345})",
       R"({"$defs": {"unused": {"not": {}}}})", R"({"allOf": [{"type": "string"}]})",
       R"({"enum": ["a", 1], "type": "string"})",
       R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties": false})"}) {
    CAPTURE(schema);
    CHECK(refusal_of(schema) == "");
  }
}

TEST_CASE("lengths beside a pattern narrow the one repetition that decides the length") {
  const auto written = [](const char* regex, TextLengths lengths) {
    const Result<std::string> rule = rewrite_regex(regex, RegexUse::kRule, lengths);
    return rule ? *rule : rule.error().message;
  };
  CHECK(written("[a-c]+", {3, 5}).ends_with("]{3,5}"));
  CHECK(written("[a-c]*", {0, 5}).ends_with("]{0,5}"));
  CHECK(written("[a-c]*", {7, std::nullopt}).ends_with("]{7,}"));
  CHECK(written("[a-c]{2,9}", {0, 4}).ends_with("]{2,4}"));
  CHECK(written("(ab)*c", {4, 8}).find("{2,3}") != std::string::npos);
  CHECK(written("x?yz", {3, std::nullopt}).find("{1,1}") != std::string::npos);
  CHECK(written("a{2}b{1,3}", {0, 3}).ends_with("{1,1}"));
  CHECK(written("(a|bc)d", {2, 3}) == written("(a|bc)d", {}));
  CHECK(written("a+?", {2, 3}).ends_with("{2,3}"));
  CHECK(written("a{9}", {0, 3}).find("minLength") != std::string::npos);
}

TEST_CASE("forms are bounded before the library sees them") {
  const std::string deep = repeated(R"({"items": )", 40) + "{}" + repeated("}", 40);
  CHECK(refusal_of(deep).starts_with("invalid_form"));
  CHECK(refusal_of(repeated(R"({"items":)", 3000) + "{}" + repeated("}", 3000)).find("1024") !=
        std::string::npos);
  CHECK(refusal_of(R"({"const": )" + repeated("[", 40) + repeated("]", 40) + "}")
            .starts_with("invalid_form"));
  CHECK(refusal_of(R"({"maxLength": 10001})").starts_with("invalid_form"));
  CHECK(refusal_of(R"({"maxLength": 10000})") == "");
  CHECK(refusal_of("\"" + repeated("a", 70000) + "\"").starts_with("invalid_form"));
  std::string properties;
  for (int i = 0; i < 256; ++i) properties += fmt::format("\"p{}\": {{}}, ", i);
  CHECK(refusal_of(fmt::format(R"({{"properties": {{{}"last": {{}}}}, "required": ["last"]}})",
                               properties)) == "");
  CHECK(refusal_of(fmt::format(R"({{"properties": {{{}"last": {{}}}}}})", properties)) ==
        "invalid_form #/properties");

  CHECK(refusal_of(FormKind::kRegex, repeated("(", 40) + repeated(")", 40)) != "");
  CHECK(refusal_of(FormKind::kRegex, "(a{100}){100}") != "");
  CHECK(refusal_of(FormKind::kRegex, "((a{2}|b){64}){32}") == "");
  CHECK(refusal_of(FormKind::kRegex, "a{99999999999999999999}") != "");
  CHECK(refusal_of(FormKind::kRegex, repeated("a", 9000)) != "");
  CHECK(refusal_of(R"({"pattern": "a{129}"})") == "unsupported_schema #/pattern");
  for (const char* const regex :
       {"(a?){17}", "((a?){8}){8}", "(a|){1,17}", "(a*b*){17}", "((a?){16}b?){2}", "(()|a){99}"}) {
    CAPTURE(regex);
    CHECK(refusal_of(FormKind::kRegex, regex) != "");
  }
  for (const char* const regex :
       {"(a?){16}", "((a?)*)*", "(a*b){99}", "(a?|b)c{99}", "(a|b|cd?){99}", "a{0,99}"}) {
    CAPTURE(regex);
    CHECK(refusal_of(FormKind::kRegex, regex) == "");
  }

  CHECK(refusal_of(FormKind::kGrammar, "root ::= " + repeated("(", 70)) != "");
  CHECK(refusal_of(FormKind::kGrammar, "root ::= \"a\"{5000}") != "");
  CHECK(refusal_of(FormKind::kGrammar, "root ::= \"({5000}\" [{5000(] # {5000}(((\n") == "");
  CHECK(refusal_of(FormKind::kGrammar, repeated("a", 70000)) != "");
  CHECK(refusal_of(FormKind::kChoices, repeated("a", 70000)) != "");
  CHECK(refusal_of(FormKind::kChoices, "") != "");
  CHECK(refusal_of(FormKind::kChoices, std::string("a\0b", 3)) != "");
  CHECK_FALSE(check_form({.kind = FormKind::kCall, .texts = {repeated("a", 300000), "{}"}}));
}

TEST_CASE("rules of a grammar only: tokens, free text and attributes are refused") {
  CHECK(refusal_of(FormKind::kGrammar, "root ::= Token(5)") != "");
  CHECK(refusal_of(FormKind::kGrammar, "root ::= TagDispatch((\"a\", b))\nb ::= \"c\"") != "");
  CHECK(refusal_of(FormKind::kGrammar, "root[temperature=3] ::= \"a\"") != "");
  CHECK(refusal_of(FormKind::kGrammar, "root ::= a[bc]\na ::= \"Token(5)\"") == "");
}

TEST_CASE("an escape of a grammar is that of a character") {
  for (const char* const text : {R"("\UFFFFFFFF")", R"("a\U00110000")", R"([\U00110000])",
                                 R"("\xFFFFFFFFFF")", R"("\ud800")", R"("\\" "\udfff")"}) {
    CHECK(refusal_of(FormKind::kGrammar, fmt::format("root ::= {}", text)) != "");
  }
  for (const char* const text : {R"("\U0010FFFF\x41\u00e9")", R"([^\ud800-\udfff])",
                                 R"("\\UFFFFFFFF")", R"("\xe9" "a")", R"("\"" "\n")"}) {
    CHECK(refusal_of(FormKind::kGrammar, fmt::format("root ::= {}", text)) == "");
  }
}

TEST_CASE("an expression that the library would read otherwise is refused") {
  for (const char* const regex :
       {"a^b", "a$b",     "(^a)",    "(?=a)",  "(?<!a)", "(?i)a", "\\bword", "\\1",   "\\p{L}",
        "a**", "a{2}{3}", "*a",      "(|*)",   "[a",     "(a",    "a)",      "[]",    "[z-a]",
        "\\",  "\\x4",    "\\ud800", "a{3,1}", "a{,3}",  "]",     "}",       "[[a]]", "[a-\\d]"}) {
    CAPTURE(regex);
    CHECK(refusal_of(FormKind::kRegex, regex) != "");
  }
  for (const char* const regex :
       {"^a$", "(a|)", "", "a|b", "[^\\s]", "\\d{2,}?", "(?<x>a)", "a\\-"}) {
    CAPTURE(regex);
    CHECK(refusal_of(FormKind::kRegex, regex) == "");
  }
  // Between the quotes of a string of JSON these stand only escaped.
  for (const char* const regex : {"\"", "\\\\", "\\n", "[\"a]", "\\x1f"}) {
    CAPTURE(regex);
    CHECK_FALSE(rewrite_regex(regex, RegexUse::kJsonString));
  }
  CHECK(rewrite_regex("[^\"\\\\]\\s.", RegexUse::kJsonString));
}
