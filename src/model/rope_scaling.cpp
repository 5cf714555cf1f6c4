#include "model/rope_scaling.h"

#include <fmt/format.h>

#include <optional>

#include "core/double_math.h"
#include "core/shortened.h"

namespace pagedinfer {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kMaxFactor = 1e6;
constexpr std::string_view kFullLayers = "full_attention", kSlidingLayers = "sliding_attention";

struct Llama3Scaling {
  float factor, low_frequency_factor, high_frequency_factor;
  float trained_positions = 0;
};

// Divides the frequencies of long wavelengths by the factor, keeps those of short ones, and
// interpolates between the two, as the Llama 3.1 release defines it.
void scale_llama3(const Llama3Scaling& s, std::vector<float>& frequencies) {
  const float longest_kept = s.trained_positions / s.high_frequency_factor;
  const float shortest_scaled = s.trained_positions / s.low_frequency_factor;
  for (float& f : frequencies) {
    const float wavelength = (1.0f / f) * static_cast<float>(2.0 * kPi);
    if (wavelength < longest_kept) continue;
    if (wavelength > shortest_scaled) {
      f /= s.factor;
      continue;
    }
    const float smooth = ((1.0f / wavelength) * s.trained_positions - s.low_frequency_factor) /
                         (s.high_frequency_factor - s.low_frequency_factor);
    f = (1.0f - smooth) * f / s.factor + smooth * f;
  }
}

// Returns nullopt if a field cannot be read.
std::optional<Llama3Scaling> read_llama3(const JsonObject& rope) {
  bool is_known = true;
  const auto number = [&](std::string_view key, double min) {
    float value = 0;
    is_known &= rope.keep([&] { value = static_cast<float>(rope.number(key, min, kMaxFactor)); });
    return value;
  };
  Llama3Scaling scaling = {.factor = number("factor", 1.0),
                           .low_frequency_factor = number("low_freq_factor", 1e-6),
                           .high_frequency_factor = number("high_freq_factor", 1e-6)};
  is_known &= rope.keep([&] {
    scaling.trained_positions =
        static_cast<float>(rope.integer("original_max_position_embeddings", 1, 1 << 30));
  });
  if (!is_known) return std::nullopt;
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    rope.refuse("high_freq_factor", fmt::format("{}", scaling.high_frequency_factor),
                fmt::format("more than low_freq_factor {}", scaling.low_frequency_factor));
  }
  return scaling;
}

void scale(const JsonObject& rope, std::vector<float>& frequencies) {
  const std::string_view key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.find_string(key).value_or("default");
  if (type == "llama3") {
    if (const auto scaling = read_llama3(rope)) scale_llama3(*scaling, frequencies);
  } else if (type == "linear") {
    const auto factor = static_cast<float>(rope.number("factor", 1e-6, kMaxFactor));
    for (float& frequency : frequencies) frequency /= factor;
  } else if (type != "default") {
    rope.complain(key, shortened(type), "default, linear or llama3");
  }
}

std::vector<float> frequencies_of(const JsonObject& config, const std::optional<JsonObject>& rope,
                                  const LayerRope& layers, int head_dim) {
  for (const JsonObject* where : {&config, rope ? &*rope : &config}) {
    where->keep([&] {
      if (where->find_number("partial_rotary_factor", 0.0, 1.0).value_or(1.0) == 1.0) return;
      where->complain("partial_rotary_factor", "is not 1, which is not supported");
    });
  }
  constexpr double kMinTheta = 1.0, kMaxTheta = 1e12;
  double theta = layers.theta;
  config.keep([&] {
    theta = config.find_number(layers.theta_key, kMinTheta, kMaxTheta).value_or(layers.theta);
  });
  if (rope && rope->has("rope_theta")) {
    rope->keep([&] { theta = rope->number("rope_theta", kMinTheta, kMaxTheta); });
  }
  std::vector<float> frequencies = default_frequencies(static_cast<float>(theta), head_dim);
  if (rope) rope->keep([&] { scale(*rope, frequencies); });
  return frequencies;
}

// The object that the field holds; nullopt also if it cannot be read.
std::optional<JsonObject> object_of(const JsonObject& config, std::string_view key) {
  std::optional<JsonObject> found;
  config.keep([&] { found = config.find_object(key); });
  return found;
}

}  // namespace

std::vector<float> default_frequencies(float base, int head_dim) {
  std::vector<float> frequencies;
  for (int i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const auto power = static_cast<float>(exp_double(double{exponent} * log_double(double{base})));
    frequencies.push_back(1.0f / power);
  }
  return frequencies;
}

std::vector<float> rope_frequencies(const JsonObject& config, int head_dim) {
  const auto parameters = object_of(config, "rope_parameters");
  for (const std::string_view layer_type : {kFullLayers, kSlidingLayers}) {
    if (parameters && parameters->has(layer_type)) {
      parameters->complain(layer_type, "is there, expected one kind of rope for all layers");
    }
  }
  const auto scaling = object_of(config, "rope_scaling");
  const bool is_old = scaling && scaling->fields().size() > 0;
  const auto& rope = is_old ? scaling : parameters;
  return frequencies_of(config, rope, {"", "rope_theta", 10000.0}, head_dim);
}

std::vector<float> layer_rope_frequencies(const JsonObject& config, const LayerRope& layers,
                                          int head_dim) {
  const auto parameters = object_of(config, "rope_parameters");
  if (parameters && parameters->fields().size() > 0 && !parameters->has(kFullLayers) &&
      !parameters->has(kSlidingLayers)) {
    config.complain("rope_parameters",
                    fmt::format("has neither {} nor {}", kFullLayers, kSlidingLayers));
  }
  auto rope = parameters ? object_of(*parameters, layers.type) : std::nullopt;
  const auto scaling = object_of(config, "rope_scaling");
  if (scaling && layers.type == kFullLayers) {
    if (rope) config.complain("rope_scaling", "is there beside rope_parameters");
    rope = scaling;
  }
  return frequencies_of(config, rope, layers, head_dim);
}

}  // namespace pagedinfer
