#include "commands/run/first_lines.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "commands/run/run_input.h"
#include "core/error.h"
#include "intake/intake_item.h"
#include "request/request_parser.h"

namespace pagedinfer {
namespace {

// The flag that may help; "" if the code has another cause than a flag.
std::string_view flag_for(ErrorCode code) {
  if (code == "missing_prompt") return "--prompt-field KEY names the prompt's key";
  if (code == "no_chat_template") return "--chat-template FILE gives the model a template";
  if (code == "no_tokenizer") return "a model directory with a tokenizer is needed";
  return "";
}

}  // namespace

void check_first_lines(const Config& config, const LoadedModel& model, const PromptLimits& limits,
                       const Interrupt& interrupt) {
  std::error_code ignored;
  if (config.shard || config.resume || !std::filesystem::is_regular_file(config.input, ignored)) {
    return;
  }
  RequestParser parser(model.defaults, {config.prompt_field, config.id_field}, config.strict);
  InputAgain input(config, interrupt);
  std::optional<Completion> first;
  for (int i = 0; i < kFirstLines; ++i) {
    const std::optional<InputLine> line = input.next();
    if (!line) return;
    IntakeItem item = make_request(parser.parse(line->text, line->index, line->number),
                                   model.tokenizer.get(), model.chat, limits);
    auto* const failed = std::get_if<Completion>(&item);
    if (failed == nullptr || flag_for(failed->error.code).empty()) return;
    if (!first) first = std::move(*failed);
  }
  throw Error(fmt::format("{}: none of the first {} lines can be answered; line {}: {}: {}; {}",
                          input.name(), kFirstLines, first->head.line, first->error.code.name(),
                          first->error.message, flag_for(first->error.code)));
}

}  // namespace pagedinfer
