// Chat templates of the tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/support.h"
#include "text/chat/chat_format.h"

namespace pagedinfer {

inline std::string test_template(const std::string& name) {
  return source_dir() + "/tests/data/chat/" + name + ".jinja";
}

// A format of one template's text.
inline ChatFormat format_of(const std::string& text,
                            std::vector<std::pair<std::string, std::string>> tokens = {}) {
  ChatFormat format = {.tokens = std::move(tokens)};
  format.sources = {{"default", "test", text}};
  format.templates.emplace_back(jinja::Template::parse(text));
  format.faults.emplace_back();
  return format;
}

inline ChatFormat chatml_format() { return format_of(read_file(test_template("chatml"))); }

}  // namespace pagedinfer
