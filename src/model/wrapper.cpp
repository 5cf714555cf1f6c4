#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/refusal.h"
#include "model/families.h"
#include "model/model_files.h"
#include "model/quantized/module_pattern.h"

namespace pagedinfer {
namespace {

// What the names of tensors begin with.
struct Prefixes {
  std::string_view root;  // of the text model, but for its output
  std::string_view output;
  std::string_view parts;  // of all that is not the text model
};

// By TextPlace.
constexpr Prefixes kPlaces[] = {
    {kTextRoots[0], "lm_head.weight", "model."},
    {kTextRoots[1], "language_model.lm_head.weight", ""},
    {kTextRoots[2], "lm_head.weight", ""},
};

ReadFamily find_text_family(const JsonObject& text, const Wrapper& wrapper) {
  if (wrapper.read_text != nullptr) return wrapper.read_text;
  const auto& types = wrapper.text_types;
  const std::string type = text.find_string("model_type").value_or(std::string(types.front()));
  if (std::ranges::find(types, type) == types.end()) {
    text.refuse("model_type", shortened(type), fmt::format("one of {}", fmt::join(types, ", ")));
  }
  return find_family_of_type(text, type);
}

// Older files have the field in "text_config" and leave it out beside that.
bool reads_tied(const JsonObject& config, const JsonObject& text, bool otherwise) {
  constexpr std::string_view kTied = "tie_word_embeddings";
  const auto outer = config.find_bool(kTied), inner = text.find_bool(kTied);
  if (!outer && !inner) return otherwise;
  return outer.value_or(false) || inner.value_or(false);
}

}  // namespace

void read_wrapped(const JsonObject& config, const Wrapper& wrapper, ModelSpec& spec,
                  std::vector<TensorNames>& names) {
  const auto inner = config.find_object("text_config");
  if (!inner && !wrapper.may_be_flat) config.refuse("text_config", "", "an object");
  const JsonObject& text = inner ? *inner : config;
  if (inner) refuse_unless_causal(text);
  find_text_family(text, wrapper)(text, spec, names);
  if (inner) check_experts(text, spec);
  config.keep([&] { spec.tied_embeddings = reads_tied(config, text, wrapper.tied_embeddings); });
  read_eos_tokens(text, spec);
  names.clear();
  for (const Prefixes& place : kPlaces) {
    TensorNames usual = usual_names(place.root, place.output, spec);
    for (const std::string_view part : wrapper.parts) {
      usual.unused.push_back(fmt::format("{}{}", place.parts, part));
    }
    for (const ExpertNaming& naming : wrapper.experts) {
      names.push_back(usual);
      if (spec.experts.count > 0) add_expert_names(place.root, naming, spec, names.back());
    }
  }
  const size_t published = static_cast<size_t>(wrapper.published) * wrapper.experts.size();
  std::swap(names.front(), names[published]);
}

}  // namespace pagedinfer
