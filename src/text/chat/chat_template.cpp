#include "text/chat/chat_template.h"

#include <algorithm>

#include "text/chat/chat_families.h"

namespace pagedinfer {
namespace {

bool shows_all(std::string_view) { return true; }

constexpr ChatTemplate kTemplates[] = {
    {"chatml", "<|im_end|>", false, false, shows_all, render_chatml},
    {"gemma2", "<end_of_turn>", false, true, shows_all, render_gemma2},
    {"gemma3", "<end_of_turn>", false, true, shows_all, render_gemma3},
    {"llama3", "<|eot_id|>", false, true, shows_all, render_llama3},
    {"mistral-nemo", "", false, true, shows_all, render_mistral_nemo},
    {"qwen2.5", "<|im_end|>", false, false, qwen_shows, render_qwen2_5},
    {"qwen3", "<|im_end|>", true, false, qwen_shows, render_qwen3},
};

}  // namespace

std::span<const ChatTemplate> chat_templates() { return kTemplates; }

const ChatTemplate* find_chat_template(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kTemplates), std::end(kTemplates),
                                         [&](const ChatTemplate& t) { return t.name == name; });
  return found == std::end(kTemplates) ? nullptr : found;
}

std::string chat_template_names() {
  std::string names;
  for (const ChatTemplate& known : kTemplates) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

}  // namespace pagedinfer
