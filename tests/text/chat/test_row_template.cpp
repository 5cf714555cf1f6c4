// Templates over the rows of a table. The cases come from tools/goldens/make_row_templates.py.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"
#include "text/chat/row_template.h"

namespace pagedinfer {
namespace {

Result<std::vector<MessageText>> rendered(const std::string& text, std::string_view row) {
  return RowTemplate::of_prompt(text).render(row, {});
}

std::string written_in(const MessageText& message) {
  std::string parts;
  for (const TextRange& part : message.written) {
    parts += fmt::format("[{}]", message.text.substr(part.begin, part.end - part.begin));
  }
  return parts;
}

// The message of the Error that the templates of a flag end with; "" if there is none.
template <class Make>
std::string error_of(const Make& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string prompt_error(const std::string& text) {
  return error_of([&] { RowTemplate::of_prompt(text); });
}

std::string message_error(const std::vector<std::string>& texts) {
  return error_of([&] { RowTemplate::of_messages(texts); });
}

TEST_CASE("templates over rows render what jinja2 renders, and fail where it fails") {
  std::ifstream file(source_dir() + "/tests/data/jinja/rows.jsonl");
  simdjson::dom::parser parser;
  int num_cases = 0;
  for (std::string line; std::getline(file, line); ++num_cases) {
    const simdjson::dom::element entry = parser.parse(line);
    const std::string source{std::string_view(entry["template"])};
    CAPTURE(line);
    const auto made = RowTemplate::of_messages(std::vector{"user=" + source})
                          .render(simdjson::minify(simdjson::dom::element(entry["row"])), {});
    if (std::string_view text; entry["text"].get(text) == simdjson::SUCCESS) {
      REQUIRE_MESSAGE(made, made.error().message);
      CHECK(made->front().text == text);
    } else {
      REQUIRE_FALSE(made);
      const bool is_undefined = entry["undefined"].error() == simdjson::SUCCESS;
      CHECK(made.error().code.name() == (is_undefined ? "undefined_column" : "template_failed"));
    }
  }
  CHECK(num_cases > 200);
}

TEST_CASE("what comes from a row is marked, and the template's own text is not") {
  const auto made =
      rendered("<s>{{ a }}</s>{{ a | upper }}{{ row.b[0] }}.", R"({"a":"<s>x","b":["</s>"]})");
  REQUIRE(made);
  CHECK(made->front().text == "<s><s>x</s><S>X</s>.");
  CHECK(written_in(made->front()) == "[<s>x][<S>X</s>]");
}

TEST_CASE("a column that is not there is named with the columns that are") {
  const auto made = rendered("a\n{{ questoin }}", R"({"question":"?","answer":1,"a b":2})");
  REQUIRE_FALSE(made);
  CHECK(made.error().code == "undefined_column");
  CHECK(made.error().message ==
        "the prompt template, line 2: 'questoin' is undefined; the row has question, answer, a b");
  CHECK(rendered("{{ a }}", "{}").error().message.ends_with("; the row has no column"));
  std::string wide = "{";
  for (int i = 0; i < 30; ++i) wide += fmt::format("{}\"c{}\":1", i > 0 ? "," : "", i);
  CHECK(rendered("{{ a }}", wide + "}").error().message.ends_with("c18, c19, ..."));
}

TEST_CASE("a row that the template refuses, fails at or makes nothing of has an error of its own") {
  const auto refused = rendered("{{ raise_exception('no ' ~ a) }}", R"({"a":"b"})");
  CHECK(refused.error().code == "template_failed");
  CHECK(refused.error().message == "the prompt template refuses the row: no b");
  const auto failed = rendered("{{ a + 1 }}", R"({"a":"b"})");
  CHECK(failed.error().code == "template_failed");
  CHECK(failed.error().message.starts_with("the prompt template, line 1: "));
  CHECK(rendered("{{ a }}", R"({"a":""})").error().code == "empty_prompt");
  const std::string deep = std::string(400, '[') + std::string(400, ']');
  CHECK(rendered("{{ a }}", R"({"a":)" + deep + "}").error().code == "template_failed");
  const auto endless = rendered(
      "{% for i in range(100000) %}{% for j in range(100000) %}{{ a }}"
      "{% endfor %}{% endfor %}",
      R"({"a":1})");
  CHECK(endless.error().message.find("needs more than") != std::string::npos);
}

TEST_CASE("the messages of a conversation come from a template each, texts or files") {
  const TempDir dir;
  write_file(dir / "system", "Answer in {{ language }}.\n");
  const std::vector<std::string> given = {"system=@" + (dir / "system"), "user=a=b {{ q }}",
                                          "assistant=7", "user={{ q }}!"};
  const RowTemplate templates = RowTemplate::of_messages(given);
  CHECK(templates.makes_messages());
  const auto made = templates.render(R"({"q":"?","language":"German"})", {});
  REQUIRE(made);
  REQUIRE(made->size() == 4);
  std::string all;
  for (const MessageText& message : *made) {
    all += fmt::format("{}:{}{};", message.role, message.text, written_in(message));
  }
  CHECK(all == "system:Answer in German.[German];user:a=b ?[?];assistant:7;user:?![?];");
  CHECK(templates.render("{}", {}).error().message ==
        fmt::format("the template of the system message ({}), line 1: 'language' is undefined; "
                    "the row has no column",
                    dir / "system"));
}

TEST_CASE("a byte-order mark of a file is no part of its template") {
  const TempDir dir;
  write_file(dir / "marked", "\xEF\xBB\xBF{{ q }}?");
  const auto made = rendered("@" + (dir / "marked"), R"({"q":"Why"})");
  REQUIRE(made);
  CHECK(made->front().text == "Why?");
}

TEST_CASE("a text that reads no column, and what is no template, are refused before a run") {
  const TempDir dir;
  CHECK(prompt_error("fewshot.txt") ==
        "--prompt-template fewshot.txt: found no {{ in the template, expected one that reads "
        "columns, as in {{ question }}; @FILE reads a file");
  CHECK(prompt_error("@" + (dir / "none")).starts_with("--prompt-template: " + (dir / "none")));
  write_file(dir / "broken", "a\nb {{ c\n");
  CHECK(prompt_error("@" + (dir / "broken"))
            .starts_with(fmt::format("--prompt-template: {}: line 2: ", dir / "broken")));
  write_file(dir / "latin", "{{ a }}\xE4");
  CHECK(prompt_error("@" + (dir / "latin")).ends_with("is not UTF-8, expected a template"));
  CHECK(prompt_error("{% if a %}").starts_with("--prompt-template: line 1: "));
  CHECK(prompt_error("{{ a }}").empty());
  CHECK(prompt_error("{% if a %}b{% endif %}").empty());

  CHECK(message_error({"system=Be brief.", "user={{ q }}"}).empty());
  CHECK(message_error({"system=Be brief.", "user=question.txt"}).find("found no {{") !=
        std::string::npos);
  for (const std::string text : {"{{ q }}", "@file", "=a{{ q }}", "us er={{ q }}"}) {
    CHECK(message_error({text}) ==
          fmt::format("--message-template: found {}, expected ROLE=TEXT or ROLE=@FILE, as in "
                      "user={{{{ question }}}}",
                      text));
  }
}

}  // namespace
}  // namespace pagedinfer
