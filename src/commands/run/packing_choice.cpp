#include "commands/run/packing_choice.h"

#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include "commands/run/run_input.h"
#include "request/input_lines.h"
#include "request/request_parser.h"

namespace pagedinfer {
namespace {

// Packing pays from kTokensThatPay tokens of completions on. kBytesPerToken bytes of prompts, some
// sixteen tokens, save as much time as one such token. docs/benchmarks.md has the measurements.
constexpr int64_t kTokensThatPay = 64;
constexpr int64_t kBytesPerToken = 64;

bool packing_pays(const Config& config) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config.input, ignored)) return true;
  InputLines lines(config.input, choice_of(config));
  RequestParser parser(config.sampling.values, {config.prompt_field, config.id_field},
                       config.strict);
  int64_t tokens = 0, bytes = 0;
  while (const std::optional<InputLine> line = lines.next()) {
    if (!line->taken) continue;
    const ParsedLine parsed = parser.parse(line->text, line->index, line->number);
    bytes += std::ssize(line->text);
    if (!parsed.failed()) tokens += parsed.request.sampling.max_tokens;
    if (tokens + bytes / kBytesPerToken >= kTokensThatPay) return true;
  }
  return false;
}

}  // namespace

Config with_packing_decided(const Config& config) {
  Config decided = config;
  if (config.pack_weights == Config::Packing::kAuto) {
    decided.pack_weights = packing_pays(config) ? Config::Packing::kOn : Config::Packing::kOff;
  }
  return decided;
}

}  // namespace pagedinfer
