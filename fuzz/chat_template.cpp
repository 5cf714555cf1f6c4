// Parses the bytes as a chat template and renders it. Either of them throws TemplateError, or the
// text is UTF-8, the same each time, and what is marked lies inside of it.
#include <string>
#include <string_view>

#include "core/utf8.h"
#include "fuzz.h"
#include "jinja/from_json.h"
#include "jinja/template.h"

using namespace pagedinfer;

namespace {

constexpr std::string_view kVariables = R"({
  "messages": [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "Hi \"there\" é中😀\n"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"function": {"name": "f", "arguments": {"a": 1, "b": [true, null, 2.5]}}}]},
    {"role": "tool", "content": [{"type": "text", "text": "part"}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": {}}}}],
  "add_generation_prompt": true, "bos_token": "<s>", "n": 7, "f": 0.5, "s": "a,b", "d": {"k": "v"}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const jinja::Value variables = jinja::from_json(kVariables, true);
  jinja::Limits limits;
  limits.max_steps = 100'000;
  limits.max_depth = 300;
  limits.max_text = 1 << 20;
  limits.max_memory = 1 << 24;
  try {
    const auto parsed = jinja::Template::parse({reinterpret_cast<const char*>(bytes), size});
    const jinja::Rendered first = parsed.render(variables.entries(), {}, limits);
    require(is_utf8(first.text), "the text is UTF-8");
    require(first.text.size() <= limits.max_text, "the text is within its limit");
    size_t end = 0;
    for (const jinja::Span& span : first.from_values) {
      require(span.begin < span.end && span.begin >= end && span.end <= first.text.size(),
              "marks are in order and inside the text");
      require(is_utf8(std::string_view(first.text).substr(span.begin, span.end - span.begin)),
              "marks are of whole characters");
      end = span.end;
    }
    const jinja::Rendered second = parsed.render(variables.entries(), {}, limits);
    require(first.text == second.text && first.from_values == second.from_values,
            "a template renders the same text again");
  } catch (const jinja::TemplateError& error) {
    require(error.what()[0] != '\0' || error.reason == jinja::TemplateError::Reason::kRaised,
            "an error says what is wrong");
  }
  return 0;
}
