#include "commands/run/run_input.h"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "commands/output_paths.h"
#include "core/error.h"
#include "intake/intake_item.h"
#include "io/file_names.h"
#include "request/request_parser.h"

namespace pagedinfer {
namespace {

// Whether a flag that is wrong or missing gives every line this error; its message says which.
bool is_of_flag(ErrorCode code) {
  return code == "missing_prompt" || code == "no_chat_template" || code == "no_tokenizer" ||
         code == "undefined_column";
}

// Whether the run goes on with an earlier one.
bool has_begun(const Config& config) {
  const Paths paths = resolve_paths(config);
  return config.resume &&
         (name_exists(paths.output) || name_exists(part_of(paths.output)) || is_only_made(paths));
}

// Packing pays from kTokensThatPay tokens of completions on. kBytesPerToken bytes of prompts, some
// sixteen tokens, save as much time as one such token. docs/benchmarks.md has the measurements.
constexpr int64_t kTokensThatPay = 64;
constexpr int64_t kBytesPerToken = 64;

bool packing_pays(const Config& config) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config.input, ignored)) return true;
  InputLines lines(config.input, choice_of(config));
  RequestParser parser(config.sampling.values, line_rules(config));
  int64_t tokens = 0, bytes = 0;
  while (const std::optional<InputLine> line = lines.next()) {
    if (!line->taken) continue;
    const ParsedLine parsed = parser.parse(*line);
    bytes += std::ssize(line->text);
    if (!parsed.failed()) tokens += parsed.request.sampling.max_tokens;
    if (tokens + bytes / kBytesPerToken >= kTokensThatPay) return true;
  }
  return false;
}

}  // namespace

InputAgain::InputAgain(const Config& config, const Interrupt& interrupt)
    : interrupt_(interrupt),
      name_(config.limit ? fmt::format("{} (--limit {})", config.input, *config.limit)
                         : config.input),
      lines_(config.input, choice_of(config), interrupt.fd()) {}

std::optional<InputLine> InputAgain::next() {
  const std::optional<InputLine> line = lines_.next();
  interrupt_.throw_if_happened();
  return line;
}

void check_first_lines(const Config& config, const ModelPlan& model, const Interrupt& interrupt) {
  std::error_code ignored;
  if (config.shard || has_begun(config) ||
      !std::filesystem::is_regular_file(config.input, ignored)) {
    return;
  }
  RequestParser parser(model.defaults, line_rules(config));
  Config whole = config;
  whole.limit.reset();  // a first try of a few lines fails as the whole file does
  InputAgain input(whole, interrupt);
  int64_t first_line = 0;
  RequestError first;
  for (int i = 0; i < kFirstLines; ++i) {
    const std::optional<InputLine> line = input.next();
    if (!line) return;
    Result<> rendered = try_to_render(parser.parse(*line), model.tokenizer.get(), model.chat);
    if (rendered || !is_of_flag(rendered.error().code)) return;
    if (i > 0) continue;
    first_line = line->number;
    first = std::move(rendered.error());
  }
  throw Error(fmt::format("{}: none of the first {} lines can be answered; line {}: {}: {}",
                          input.name(), kFirstLines, first_line, first.code.name(), first.message));
}

Config with_packing_decided(const Config& config) {
  Config decided = config;
  if (config.pack_weights == Config::Packing::kAuto) {
    decided.pack_weights = packing_pays(config) ? Config::Packing::kOn : Config::Packing::kOff;
  }
  return decided;
}

}  // namespace pagedinfer
