#include "cli/info_flags.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "cli/flag_help.h"
#include "cli/run_flags.h"

namespace pagedinfer {
namespace {

// The settings of a run that say how its model is read and its prompts are made.
constexpr std::string_view kTaken[] = {
    "model",         "weights",   "dtype",          "device", "max_model_len",
    "chat_template", "chat_date", "escape_special", "chat",   "system",
    "prompt_field",  "strict",    "limit"};

bool is_taken(const Setting& setting) {
  return std::ranges::find(kTaken, setting.key) != std::end(kTaken);
}

}  // namespace

void add_info_flags(CLI::App& command, InfoConfig& info) {
  const auto add = [](CLI::Option* option, const std::string& value, std::string_view help) {
    set_help(*option, "Info", value, help);
  };
  add(command.add_option("--render", info.render), "FILE|-",
      "Print the prompts of a file's lines instead, as a run would give them to the model. Give it "
      "to see what a chat template makes of a file.");
  add(command.add_flag("--ids", info.ids), "",
      "With --render, print token ids instead of text. Give it to compare with another program.");
  add(command.add_flag("--json", info.json), "",
      "Print JSON: one object for a model, one for each line of --render. Give it in scripts.");
  add_flags(command, info.config, is_taken);
  command.footer(
      "\nNo weights are loaded: of the checkpoint only the headers are read."
      "\nExit codes: 0 a run takes the model, or all lines; 1 it would refuse the model, with the"
      "\nreasons above, or there is no model; 2 some lines of --render would end in an error "
      "record.");
}

}  // namespace pagedinfer
