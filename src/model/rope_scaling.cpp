#include "model/rope_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "core/double_math.h"
#include "core/refusal.h"
#include "model/rope_frequencies.h"

namespace pagedinfer {
namespace {

constexpr double kMinTheta = 1.0, kMaxTheta = 1e12;
constexpr double kMinFactor = 1e-6, kMaxFactor = 1e6;
constexpr int kMaxRopePositions = 1 << 30;
constexpr int kMaxQFactors = 1 << 16;
constexpr std::string_view kFullLayers = "full_attention", kSlidingLayers = "sliding_attention";
constexpr std::string_view kSectioned = "mrope", kSections = "mrope_section";
constexpr std::string_view kSectionedKeys[] = {
    "type", "rope_type", kSections, "rope_theta", "mrope_interleaved", "partial_rotary_factor"};
constexpr std::string_view kTrained = "original_max_position_embeddings";

// Where the fields of a rope stand: in config.json, and in the object that it may have for them.
struct RopeFields {
  const JsonObject& config;
  const std::optional<JsonObject>& rope;
  RopeDefaults defaults;
  std::string_view theta_key = "rope_theta";
};

// The rope of a model, in the making.
class Reader {
 public:
  Reader(const RopeFields& fields, ModelSpec& spec) : fields_(fields), spec_(spec) {}

  RopeSpec read() {
    read_theta();
    read_channels();
    rope_.inv_freq = default_frequencies(theta_, channels_);
    if (fields_.rope) fields_.rope->keep([&] { scale(*fields_.rope); });
    if (fields_.rope && fields_.defaults.scales_q) {
      fields_.rope->keep([&] { read_q_factors(*fields_.rope); });
    }
    return std::move(rope_);
  }

 private:
  void read_theta() {
    const JsonObject& config = fields_.config;
    theta_ = fields_.defaults.theta;
    config.keep([&] {
      theta_ = config.find_number(fields_.theta_key, kMinTheta, kMaxTheta).value_or(theta_);
    });
    if (!fields_.rope || !fields_.rope->has("rope_theta")) return;
    fields_.rope->keep([&] { theta_ = fields_.rope->number("rope_theta", kMinTheta, kMaxTheta); });
  }

  void read_channels() {
    std::optional<double> factor;
    const auto read_from = [&](const JsonObject& where) {
      where.keep([&] {
        const auto found = where.find_number("partial_rotary_factor", 0.0, 1.0);
        if (!factor) factor = found;
        if (found.value_or(1.0) == 1.0 || fields_.defaults.may_be_partial) return;
        where.complain("partial_rotary_factor", "is not 1, which is not supported");
      });
    };
    if (fields_.rope) read_from(*fields_.rope);
    read_from(fields_.config);
    channels_ = spec_.head_dim;
    if (!fields_.defaults.may_be_partial || channels_ == 0) return;
    channels_ = static_cast<int>(channels_ * factor.value_or(fields_.defaults.rotated_share));
    if (channels_ > 0) return;
    fields_.config.complain("partial_rotary_factor", "leaves no channel to rotate");
    channels_ = spec_.head_dim;
  }

  // The positions that the model was trained for, before it was stretched.
  int trained_positions() const {
    const auto read_from = [](const JsonObject& where) {
      return where.find_integer(kTrained, 2, kMaxRopePositions);
    };
    std::optional<int64_t> found = read_from(fields_.config);
    if (!found && fields_.defaults.trained_positions > 0) {
      found = fields_.defaults.trained_positions;
    }
    if (!found) found = read_from(*fields_.rope);
    return static_cast<int>(found.value_or(spec_.max_positions));
  }

  void scale(const JsonObject& rope) {
    const std::string_view key = rope.has("rope_type") ? "rope_type" : "type";
    const std::string type = rope.find_string(key).value_or("default");
    check_sections(rope, type);
    const bool only_longrope = fields_.defaults.only_longrope;
    if (type == "longrope" || (only_longrope && (type == "su" || type == "yarn"))) {
      scale_longrope(rope);
    } else if (only_longrope && type != "default") {
      rope.complain(key, shortened(type), "default or longrope");
    } else if (type == "llama3") {
      read_llama3(rope);
    } else if (type == "yarn") {
      scale_yarn(rope);
    } else if (type == "dynamic") {
      scale_dynamic(rope);
    } else if (type == "linear") {
      const auto factor = static_cast<float>(rope.number("factor", kMinFactor, kMaxFactor));
      for (float& frequency : rope_.inv_freq) frequency /= factor;
    } else if (type != "default" && type != kSectioned) {
      rope.complain(key, shortened(type), "default, linear, llama3, yarn, longrope or dynamic");
    }
  }

  // A token of a picture has three positions, and each section of a head is rotated by one of them.
  // The three positions of a token of text are equal, so sections change nothing.
  void check_sections(const JsonObject& rope, std::string_view type) const {
    if (type != kSectioned && !rope.has(kSections)) return;
    const auto sections = rope.integers(kSections, 0, kMaxRopePositions);
    const bool is_split = !rope.find_bool("mrope_interleaved").value_or(false);
    const int64_t sum = std::accumulate(sections.begin(), sections.end(), int64_t{0});
    if (sections.size() != 3 || (is_split && channels_ > 0 && sum != channels_ / 2)) {
      const std::string expected =
          fmt::format("three numbers of frequencies, {} together", channels_ / 2);
      if (const auto found = rope.find(kSections)) rope.refuse(kSections, *found, expected);
      rope.refuse(kSections, "", expected);
    }
    if (type != kSectioned) return;
    for (const auto field : rope.fields()) {
      if (std::ranges::find(kSectionedKeys, field.key) != std::end(kSectionedKeys)) continue;
      rope.refuse(field.key, field.value, fmt::format("nothing in a rope of type {}", kSectioned));
    }
  }

  void read_llama3(const JsonObject& rope) {
    bool is_known = true;
    const auto number = [&](std::string_view key, double min) {
      float value = 0;
      is_known &= rope.keep([&] { value = static_cast<float>(rope.number(key, min, kMaxFactor)); });
      return value;
    };
    Llama3Scaling scaling = {.factor = number("factor", 1.0),
                             .low_frequency_factor = number("low_freq_factor", kMinFactor),
                             .high_frequency_factor = number("high_freq_factor", kMinFactor),
                             .trained_positions = 0};
    is_known &=
        rope.keep([&] { scaling.trained_positions = static_cast<float>(trained_positions()); });
    if (!is_known) return;
    if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
      rope.refuse("high_freq_factor", fmt::format("{}", scaling.high_frequency_factor),
                  fmt::format("more than low_freq_factor {}", scaling.low_frequency_factor));
    }
    scale_llama3(scaling, rope_.inv_freq);
  }

  void scale_yarn(const JsonObject& rope) {
    const auto number = [&](std::string_view name) {
      return rope.find_number(name, 0.0, kMaxFactor).value_or(0.0);
    };
    YarnScaling scaling = {.factor = 0, .trained_positions = trained_positions()};
    scaling.factor = rope.find_number("factor", kMinFactor, kMaxFactor)
                         .value_or(double(spec_.max_positions) / scaling.trained_positions);
    if (const double beta = number("beta_fast"); beta > 0) scaling.beta_fast = beta;
    if (const double beta = number("beta_slow"); beta > 0) scaling.beta_slow = beta;
    scaling.truncates = rope.find_bool("truncate").value_or(true);
    const double mscale = number("mscale"), of_all = number("mscale_all_dim");
    double usual = yarn_scale(scaling.factor);
    if (mscale > 0 && of_all > 0) {
      usual = yarn_scale(scaling.factor, mscale) / yarn_scale(scaling.factor, of_all);
    }
    const double scale = rope.find_number("attention_factor", 0.0, kMaxFactor).value_or(usual);
    if (theta_ <= 1) rope.refuse("rope_theta", fmt::format("{}", theta_), "more than 1 for yarn");
    rope_.inv_freq = yarn_frequencies(scaling, theta_, channels_);
    rope_.scale = static_cast<float>(scale);
    stretch(scaling.trained_positions * scaling.factor);
  }

  void scale_longrope(const JsonObject& rope) {
    const auto factors = [&](std::string_view name) {
      const std::vector<double> all = rope.numbers(name, kMinFactor, kMaxFactor);
      if (all.size() == rope_.inv_freq.size() || channels_ == 0) return all;
      rope.refuse(name, counted(std::ssize(all), "factor", "factors"),
                  fmt::format("{}, one for each frequency", rope_.inv_freq.size()));
    };
    const int trained = trained_positions();
    const double factor = rope.find_number("factor", kMinFactor, kMaxFactor)
                              .value_or(double(spec_.max_positions) / trained);
    const double scale =
        rope.find_number("attention_factor", 0.0, kMaxFactor).value_or(long_scale(factor, trained));
    rope_.inv_freq = long_frequencies(factors("short_factor"), theta_, channels_);
    rope_.long_inv_freq = long_frequencies(factors("long_factor"), theta_, channels_);
    rope_.scale = static_cast<float>(scale);
    rope_.short_positions = trained;
  }

  void scale_dynamic(const JsonObject& rope) {
    const double factor = rope.number("factor", 1.0, kMaxFactor);
    if (channels_ == 0) return;  // not known
    if (channels_ <= 2) {
      rope.refuse("rope_type", "dynamic", "another one for heads of 2 channels");
    }
    rope_.long_inv_freq = default_frequencies(stretched_base(theta_, factor, channels_), channels_);
    rope_.short_positions = spec_.max_positions;
    stretch(spec_.max_positions * factor);
  }

  // q grows by the logarithm of how many times the trained positions are before it.
  void read_q_factors(const JsonObject& rope) {
    const double beta = rope.find_number("llama_4_scaling_beta", 0.0, kMaxFactor).value_or(0.0);
    if (beta == 0) return;
    const int trained = trained_positions();
    const int longest = std::max(spec_.max_positions, spec_.max_stretched_positions);
    if (longest / trained >= kMaxQFactors) {
      rope.refuse(
          kTrained, fmt::format("{}", trained),
          fmt::format("more than the {} positions of the model / {}", longest, kMaxQFactors));
    }
    for (int i = 0; i <= longest / trained; ++i) {
      rope_.q_factors.push_back(static_cast<float>(1 + beta * log_double(1 + i)));
    }
    rope_.positions_per_q_factor = trained;
  }

  // Lets --max-model-len ask for so many positions.
  void stretch(double positions) {
    if (spec_.max_positions == 0 || positions <= spec_.max_positions) return;
    spec_.max_stretched_positions =
        static_cast<int>(std::min<double>(positions, kMaxRopePositions));
  }

  const RopeFields& fields_;
  ModelSpec& spec_;
  RopeSpec rope_ = {};
  double theta_ = 0;
  int channels_ = 0;  // of a head, that are rotated
};

// The object that the field holds; nullopt also if it cannot be read.
std::optional<JsonObject> object_of(const JsonObject& config, std::string_view key) {
  std::optional<JsonObject> found;
  config.keep([&] { found = config.find_object(key); });
  return found;
}

}  // namespace

void read_rope(const JsonObject& config, const RopeDefaults& defaults, ModelSpec& spec) {
  const auto parameters = object_of(config, "rope_parameters");
  for (const std::string_view layer_type : {kFullLayers, kSlidingLayers}) {
    if (parameters && parameters->has(layer_type)) {
      parameters->complain(layer_type, "is there, expected one kind of rope for all layers");
    }
  }
  const auto scaling = object_of(config, "rope_scaling");
  const bool is_old = scaling && scaling->fields().size() > 0;
  const auto& rope = is_old ? scaling : parameters;
  spec.ropes = {Reader({config, rope, defaults}, spec).read()};
}

void read_layer_ropes(const JsonObject& config, const LayerRope& full, const LayerRope& sliding,
                      const SlidingLayers& slides, ModelSpec& spec) {
  const auto parameters = object_of(config, "rope_parameters");
  if (parameters && parameters->fields().size() > 0 && !parameters->has(kFullLayers) &&
      !parameters->has(kSlidingLayers)) {
    config.complain("rope_parameters",
                    fmt::format("has neither {} nor {}", kFullLayers, kSlidingLayers));
  }
  const auto of_type = [&](std::string_view type) {
    return parameters ? object_of(*parameters, type) : std::nullopt;
  };
  const auto add = [&](const std::optional<JsonObject>& rope, const LayerRope& layers) {
    spec.ropes.push_back(
        Reader({config, rope, {.theta = layers.theta}, layers.theta_key}, spec).read());
  };
  const auto scaling = object_of(config, "rope_scaling"), of_full = of_type(kFullLayers);
  if (scaling && of_full) config.complain("rope_scaling", "is there beside rope_parameters");
  add(scaling ? scaling : of_full, full);
  add(of_type(kSlidingLayers), sliding);
  for (size_t i = 0; slides && i < spec.layers.size(); ++i) {
    spec.layers[i].rope = (*slides)[i] ? 1 : 0;
  }
}

}  // namespace pagedinfer
