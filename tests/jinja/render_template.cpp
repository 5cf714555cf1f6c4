// Renders chat templates for tools/checks/check_chat_templates.py: a line of the input is
// {"template", "variables"}, one of the output {"text"} or {"error", "line"}.
#include <iostream>
#include <map>
#include <string>

#include "core/json.h"
#include "jinja/from_json.h"
#include "jinja/template.h"

using namespace pagedinfer;

namespace {

std::string rendered(const std::string& line, std::map<std::string, jinja::Template>& known) {
  std::string out;
  JsonWriter writer(out);
  writer.begin_object();
  try {
    const jinja::Value input = jinja::from_json(line, true);
    const std::string& source = input.entries().find("template")->text();
    if (known.count(source) == 0) known.emplace(source, jinja::Template::parse(source));
    const jinja::Dict& variables = input.entries().find("variables")->entries();
    writer.field("text", known.at(source).render(variables, {}).text);
  } catch (const jinja::TemplateError& error) {
    writer.field("error", error.what()).field("line", error.line);
  }
  writer.end_object();
  return out;
}

}  // namespace

int main() {
  std::map<std::string, jinja::Template> known;
  for (std::string line; std::getline(std::cin, line);) std::cout << rendered(line, known) << '\n';
}
