#include "commands/info/info_config.h"

#include <algorithm>
#include <iterator>

namespace pagedinfer {
namespace {

constexpr std::string_view kInfo = "Info";

constexpr InfoFlag kInfoFlags[] = {
    {kInfo, "--render", "FILE|-", "",
     "Print the prompts of a file instead, as a run would give them to the model.",
     "For a look at what a chat template makes of a file.", give_path<&InfoConfig::render>},
    {kInfo, "--ids", "", "", "With --render, print token ids instead of text.",
     "For comparing token ids with another program.", give_switch<&InfoConfig::ids>},
    {kInfo, "--json", "", "", "Print JSON: one object for a model, one for each line of --render.",
     "For scripts.", give_switch<&InfoConfig::json>},
};

constexpr std::string_view kTaken[] = {
    "model",         "weights",       "lora",      "dtype",          "quantize", "device",
    "max_model_len", "chat_template", "chat_date", "escape_special", "chat",     "system",
    "prompt_field",  "id_field",      "strict",    "limit"};

}  // namespace

std::span<const InfoFlag> info_flags() { return kInfoFlags; }

bool is_of_info(const Setting& setting) {
  return std::ranges::find(kTaken, setting.key) != std::end(kTaken);
}

}  // namespace pagedinfer
