#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "commands/info/model_info.h"
#include "core/json.h"
#include "core/refusal.h"

namespace pagedinfer {
namespace {

constexpr size_t kValueColumn = 16;

std::string size_text(int64_t bytes) {
  constexpr double kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;
  const auto size = static_cast<double>(bytes);
  if (size >= kGiB) return fmt::format("{:.2f} GiB", size / kGiB);
  if (size >= kMiB) return fmt::format("{:.1f} MiB", size / kMiB);
  return fmt::format("{:.1f} KiB", size / kKiB);
}

// Text in quotes, with escapes, so that it fits on one line.
std::string in_quotes(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

std::string token_text(const NamedToken& token) {
  std::string text = token.name.empty() ? "" : token.name + " ";
  if (!token.text.empty()) text += in_quotes(token.text);
  if (!token.id) return text + " (not in the vocabulary)";
  return text + fmt::format("{}{}", token.text.empty() ? "" : " ", *token.id);
}

template <class List, class Shown>
std::string joined(const List& list, const Shown& shown) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + shown(item);
  return text;
}

std::string windows_text(const ModelSpec& spec) {
  const auto slides = [](const LayerSpec& layer) { return layer.window > 0; };
  const auto count = std::ranges::count_if(spec.layers, slides);
  if (count == 0) return "";
  return fmt::format("{} of the layers see the last {} positions", count,
                     std::ranges::find_if(spec.layers, slides)->window);
}

std::string stored_text(const InspectedModel& model) {
  const auto shown = [](const TensorTotal& total) {
    return fmt::format("{} in {} of {}", size_text(total.bytes),
                       counted(total.num_tensors, "tensor", "tensors"), total.type);
  };
  const std::string text = joined(model.stored, shown);
  if (text.empty()) return "none";
  if (model.num_files == 0) return text + ", made up";
  return fmt::format("{}; {}", text, counted(model.num_files, "file", "files"));
}

std::string adapter_text(const Adapter& adapter) {
  if (adapter.num_matrices() == 0) return "changes nothing";
  const auto [min, max] = adapter.ranks();
  return fmt::format("{} of rank {}, {} parameters; {}",
                     counted(adapter.num_matrices(), "matrix", "matrices"),
                     min == max ? std::to_string(min) : fmt::format("{} to {}", min, max),
                     grouped(adapter.num_parameters()), shortened(adapter.config_path()));
}

// Collects lines that begin with a name.
class Lines {
 public:
  void add(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    text_ += fmt::format("{:<{}}{}\n", name, kValueColumn, value);
  }
  template <class List>
  void add_list(std::string_view heading, const List& list) {
    if (list.empty()) return;
    text_ += fmt::format("\n{}\n", heading);
    for (const std::string& item : list) text_ += fmt::format("  - {}\n", item);
  }
  void add_text(std::string_view text) { text_ += text; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_ = {};
};

std::string family_text(const InspectedModel& model) {
  if (model.architecture.empty()) return model.model_type;
  return model.model_type.empty()
             ? model.architecture
             : fmt::format("{} ({})", shortened(model.architecture), shortened(model.model_type));
}

std::string layers_text(const ModelSpec& spec) {
  std::vector<std::string> parts;
  if (!spec.layers.empty()) parts.push_back(std::to_string(spec.layers.size()));
  if (spec.hidden > 0) parts.push_back(fmt::format("of {} channels", spec.hidden));
  const bool lacks_mlp =
      !spec.layers.empty() && std::ranges::all_of(spec.layers, &LayerSpec::has_experts);
  if (spec.intermediate > 0 && !lacks_mlp) {
    parts.push_back(fmt::format("{} in the MLP", spec.intermediate));
  }
  if (std::string windows = windows_text(spec); !windows.empty()) parts.push_back(windows);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string heads_text(const ModelSpec& spec) {
  std::string text = spec.heads > 0 ? std::to_string(spec.heads) : "";
  if (spec.head_dim > 0) {
    text += fmt::format("{}of {} channels", text.empty() ? "" : " ", spec.head_dim);
  }
  if (spec.kv_heads > 0) {
    text += fmt::format("{}{} of keys and values", text.empty() ? "" : ", ", spec.kv_heads);
  }
  return text;
}

void add_shapes(const InspectedModel& model, Lines& lines) {
  const ModelSpec& spec = model.spec;
  lines.add("family", family_text(model));
  lines.add("layers", layers_text(spec));
  lines.add("heads", heads_text(spec));
  if (spec.vocab > 0) {
    lines.add("vocabulary",
              fmt::format("{} tokens{}", grouped(spec.vocab),
                          model.tied_embeddings.value_or(false) ? ", embeddings tied" : ""));
  }
  if (spec.max_positions > 0) {
    lines.add("context", fmt::format("{} tokens", grouped(spec.max_positions)));
  }
  for (const auto& [name, text] : traits_of(spec)) lines.add(name, text);
  if (model.parameters.all > 0) lines.add("parameters", text_of(model.parameters));
  lines.add("weights", stored_text(model));
  lines.add("quantization", model.quantization);
}

void write_tokens(JsonWriter& json, const std::vector<NamedToken>& tokens) {
  json.begin_array();
  for (const NamedToken& token : tokens) {
    json.begin_object();
    if (!token.name.empty()) json.field("name", token.name);
    json.field("text", token.text).field("id", token.id).end_object();
  }
  json.end_array();
}

void write_shapes(JsonWriter& json, const InspectedModel& model) {
  const ModelSpec& spec = model.spec;
  json.field("architecture", model.architecture).field("model_type", model.model_type);
  const auto add_known = [&](std::string_view name, int64_t number) {
    if (number > 0) json.field(name, number);
  };
  add_known("layers", std::ssize(spec.layers));
  add_known("hidden_size", spec.hidden);
  add_known("intermediate_size", spec.intermediate);
  add_known("heads", spec.heads);
  add_known("kv_heads", spec.kv_heads);
  add_known("head_dim", spec.head_dim);
  add_known("vocab_size", spec.vocab);
  add_known("context", spec.max_positions);
  if (model.tied_embeddings) json.field("tied_embeddings", *model.tied_embeddings);
  if (!spec.layers.empty() && spec.layers.front().window >= 0) {
    json.key("windows").begin_array();
    for (const LayerSpec& layer : spec.layers) json.value(layer.window);
    json.end_array();
  }
  json.key("traits").begin_object();
  for (const auto& [name, text] : traits_of(spec)) json.field(name, text);
  json.end_object();
  add_known("parameters", model.parameters.all);
  add_known("active_parameters", model.parameters.active);
  json.field("weight_files", model.num_files).field("quantization", model.quantization);
  json.key("weights").begin_array();
  for (const TensorTotal& total : model.stored) {
    json.begin_object().field("type", total.type).field("tensors", total.num_tensors);
    json.field("parameters", total.parameters).field("bytes", total.bytes).end_object();
  }
  json.end_array();
}

}  // namespace

std::string info_text(const ModelInfo& info) {
  Lines lines;
  const auto num_problems = std::ssize(info.problems.all());
  const std::string& path = info.store.path();
  lines.add("model", path == info.name ? path : fmt::format("{} ({})", info.name, path));
  lines.add("supported",
            num_problems == 0
                ? "yes"
                : fmt::format("no, for {}", counted(num_problems, "reason", "reasons")));
  add_shapes(info.model, lines);
  if (info.model.adapter) lines.add("adapter", adapter_text(*info.model.adapter));
  lines.add("computed in", info.compute);
  lines.add("cached in", info.cache);
  const TokenizerKind& kind = info.tokenizer_kind;
  if (!kind.file.empty()) {
    lines.add("tokenizer",
              fmt::format("{} of {}{}", kind.kind, kind.file,
                          info.tokenizer ? fmt::format(", {} tokens", grouped(info.num_tokens))
                                         : ", which cannot be used"));
  }
  lines.add("special tokens", joined(info.special_tokens, token_text));
  lines.add("ends", joined(info.ends, token_text));
  lines.add("chat template", template_origin(info.chat.format));
  lines.add("ends of turn", joined(info.ends_of_turn, token_text));
  lines.add("defaults", joined(info.generation, [](const auto& entry) {
              return fmt::format("{} {}", entry.first, entry.second);
            }));
  lines.add_list("A run is refused, because", info.problems.all());
  lines.add_list("To know", info.notes);
  if (!info.example.empty()) {
    lines.add_text(fmt::format("\nA conversation becomes\n{}\n", info.example));
  }
  return lines.take();
}

std::string info_json(const ModelInfo& info) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("model", info.store.path()).field("name", info.name);
  json.field("supported", info.supported()).field("problems", info.problems.all());
  json.field("notes", info.notes);
  write_shapes(json, info.model);
  json.key("adapter");
  const auto& adapter = info.model.adapter;
  if (adapter && adapter->num_matrices() > 0) {
    const auto [min, max] = adapter->ranks();
    json.begin_object().field("file", adapter->config_path());
    json.field("matrices", adapter->num_matrices()).field("parameters", adapter->num_parameters());
    json.field("min_rank", min).field("max_rank", max).end_object();
  } else {
    json.value(nullptr);
  }
  json.field("computed_in", info.compute).field("cached_in", info.cache);
  json.key("tokenizer");
  if (info.tokenizer_kind.file.empty()) {
    json.value(nullptr);
  } else {
    json.begin_object().field("file", info.tokenizer_kind.file);
    json.field("kind", info.tokenizer_kind.kind).field("usable", info.tokenizer != nullptr);
    json.field("tokens", info.num_tokens).end_object();
  }
  json.key("special_tokens");
  write_tokens(json, info.special_tokens);
  json.key("end_tokens");
  write_tokens(json, info.ends);
  json.key("ends_of_turn");
  write_tokens(json, info.ends_of_turn);
  json.field("chat_template", template_origin(info.chat.format));
  json.key("generation_config").begin_object();
  for (const auto& [key, value] : info.generation) json.field(key, value);
  json.end_object();
  json.key("example");
  info.example.empty() ? json.value(nullptr) : json.value(info.example);
  json.end_object();
  return text + "\n";
}

}  // namespace pagedinfer
