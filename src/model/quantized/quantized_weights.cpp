#include "model/quantized/quantized_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/problems.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "model/quantized/stored_part.h"

namespace pagedinfer {
namespace {

struct Method {
  std::string_view name;  // "quant_method" in config.json
  StoredForm (*read)(const JsonObject& config);
};

constexpr Method kMethods[] = {
    {"fp8", read_fp8},
    {"fbgemm_fp8", read_fp8},
    {"compressed-tensors", read_compressed_tensors},
    {"gptq", read_gptq},
    {"awq", read_awq},
    {"mxfp4", read_mxfp4},
    {"gguf_blocks", read_gguf},
};

// Of the whole model, or in models of pictures too, of the text model.
std::optional<JsonObject> find_quantization(const JsonObject& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (auto found = config.find_object(key)) return found;
  }
  const auto text = config.find_object("text_config");
  return text ? text->find_object("quantization_config") : std::nullopt;
}

StoredForm read_method(const JsonObject& config) {
  const std::string name = config.find_string("quant_method").value_or("");
  const auto* const method = std::ranges::find(kMethods, name, &Method::name);
  if (method != std::end(kMethods)) return method->read(config);
  config.refuse("quant_method", shortened(name),
                fmt::format("a method that can be read{}", kTakeAnother));
}

// The name without ".weight".
std::string without_weight(const std::string& name) {
  constexpr std::string_view kEnd = ".weight";
  return name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : name;
}

std::string part_name(const StoredForm& form, const std::string& module, std::string_view part) {
  return fmt::format("{}{}{}", module, form.joint, part);
}

}  // namespace

QuantizedWeights::QuantizedWeights(const JsonObject& config) {
  Problems problems;
  problems.keep([&] {
    const auto quantization = find_quantization(config);
    if (quantization) form_ = read_method(quantization->keeping(problems));
  });
  is_known_ = problems.all().empty();
  for (const std::string& problem : problems.all()) {
    config.keep([&] { throw Error(problem); });
  }
}

bool QuantizedWeights::has(const Checkpoint& files, const std::string& name) const {
  if (!form_.open) return false;
  const std::string module = without_weight(name);
  const auto has_part = [&](std::string_view part) {
    return part != "weight" && files.contains(part_name(form_, module, part));
  };
  return std::ranges::any_of(form_.parts, has_part) ||
         (files.contains(name) && !is_float(files.stored(name)));
}

std::string QuantizedWeights::begin_of_parts(const std::string& name) const {
  return part_name(form_, without_weight(name), "");
}

RowSource QuantizedWeights::open(const Checkpoint& files, const std::string& name,
                                 MatrixSize size) const {
  const std::string module = without_weight(name);
  if (!form_.codes.empty() && form_.codes != "weight") {
    refuse_beside(files, module, form_.codes, "weight");
  }
  return form_.open(files, module, size);
}

std::optional<CodeSource> QuantizedWeights::open_codes(const Checkpoint& files,
                                                       const std::string& name,
                                                       MatrixSize size) const {
  if (!form_.open_codes) return std::nullopt;
  return form_.open_codes(files, without_weight(name), size);
}

void QuantizedWeights::read_ahead(const Checkpoint& files, const std::string& name) const {
  for (const std::string_view part : form_.parts) {
    const std::string tensor = part_name(form_, without_weight(name), part);
    if (files.contains(tensor)) files.read_ahead(tensor);
  }
}

void QuantizedWeights::give_back(const Checkpoint& files, const std::string& name) const {
  for (const std::string_view part : form_.parts) {
    const std::string tensor = part_name(form_, without_weight(name), part);
    if (files.contains(tensor)) files.give_back(tensor);
  }
}

}  // namespace pagedinfer
