#include "commands/info/info_config.h"

#include <algorithm>
#include <iterator>

namespace pagedinfer {
namespace {

constexpr std::string_view kInfo = "Info";

constexpr InfoFlag kFlags[] = {
    {kInfo, "--render", "FILE|-", "",
     "Print the prompts of a file instead, as a run would give them to the model.",
     "For a look at what a chat template makes of a file.",
     [](const InfoFlag& flag, std::string_view text, InfoConfig& info) {
       if (text.empty()) throw refused(flag, text, "a file, or -");
       info.render = text;
     }},
    {kInfo, "--ids", "", "", "With --render, print token ids instead of text.",
     "For comparing token ids with another program.",
     [](const InfoFlag&, std::string_view, InfoConfig& info) { info.ids = true; }},
    {kInfo, "--json", "", "", "Print JSON: one object for a model, one for each line of --render.",
     "For scripts.", [](const InfoFlag&, std::string_view, InfoConfig& info) { info.json = true; }},
};

constexpr std::string_view kTaken[] = {
    "model",  "weights",       "lora",          "dtype",     "quantize",
    "device", "max_model_len", "chat_template", "chat_date", "escape_special",
    "chat",   "system",        "prompt_field",  "strict",    "limit"};

}  // namespace

std::span<const InfoFlag> info_flags() { return kFlags; }

bool is_of_info(const Setting& setting) {
  return std::ranges::find(kTaken, setting.key) != std::end(kTaken);
}

}  // namespace pagedinfer
