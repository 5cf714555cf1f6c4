#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "jinja/template.h"
#include "text/chat/render_chat.h"

namespace pagedinfer {

// The file that a template's flag names, as in "@FILE"; nullopt if it gives the text itself.
std::optional<std::string> template_file(std::string_view given);

// What turns a row of a table into a prompt or into the messages of a conversation. Knows nothing
// of chat templates. Several threads may use it at once.
class RowTemplate {
 public:
  // `prompt` is "TEXT" or "@FILE". Throws Error, as of_messages() does, if a file cannot be read, a
  // text is no template, or no text reads a column.
  static RowTemplate of_prompt(std::string_view prompt);
  // Each of `messages` is "ROLE=TEXT" or "ROLE=@FILE". REQUIRES: there are some.
  static RowTemplate of_messages(std::span<const std::string> messages);

  bool makes_messages() const { return !parts_.front().role.empty(); }
  // The texts of all templates, each with its role.
  const std::string& text() const { return text_; }

  // One message without a role, or the messages, with the row's keys as variables; `row` is the
  // whole row. What comes from the row counts as written by people. The codes of errors:
  //
  //   undefined_column  a template reads what the row does not have
  //   template_failed   a template refuses the row, fails, or needs too much
  //   empty_prompt      the prompt is empty
  //
  // REQUIRES: `row` is a JSON object.
  Result<std::vector<MessageText>> render(std::string_view row, const jinja::DateTime& now) const;

 private:
  struct Part {
    std::string role;   // "" = the prompt
    std::string place;  // in messages
    jinja::Template parsed;
  };

  void add(std::string role, std::string_view flag, std::string_view given);
  void check_reads_columns(std::string_view flag, std::string_view example) const;

  std::vector<Part> parts_ = {};
  std::string text_ = {};
};

}  // namespace pagedinfer
