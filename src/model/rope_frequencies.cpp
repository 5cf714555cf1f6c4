#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>

#include "core/double_math.h"

namespace pagedinfer {
namespace {

constexpr double kPi = 3.14159265358979323846;

// base^(i / channels), rounded to float32.
float power(float base, int i, int channels) {
  const float exponent = static_cast<float>(i) / static_cast<float>(channels);
  return static_cast<float>(exp_double(double{exponent} * log_double(double{base})));
}

// The channel that turns so many times within the trained positions.
double channel_of(double turns, const YarnScaling& s, double base, int channels) {
  return channels * log_double(s.trained_positions / (turns * 2 * kPi)) / (2 * log_double(base));
}

}  // namespace

std::vector<float> default_frequencies(double base, int channels) {
  std::vector<float> frequencies;
  for (int i = 0; i < channels; i += 2) {
    frequencies.push_back(1.0f / power(static_cast<float>(base), i, channels));
  }
  return frequencies;
}

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

std::vector<float> yarn_frequencies(const YarnScaling& s, double base, int channels) {
  double first = channel_of(s.beta_fast, s, base, channels);
  double last = channel_of(s.beta_slow, s, base, channels);
  if (s.truncates) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, channels - 1.0);
  if (first == last) last += 0.001;
  const auto begin = static_cast<float>(first), width = static_cast<float>(last - first);
  std::vector<float> frequencies;
  for (int i = 0; 2 * i < channels; ++i) {
    const float whole = power(static_cast<float>(base), 2 * i, channels);
    const float kept = 1.0f / whole, divided = 1.0f / (static_cast<float>(s.factor) * whole);
    const float ramp = std::clamp((static_cast<float>(i) - begin) / width, 0.0f, 1.0f);
    const float share = 1.0f - ramp;  // of the kept one
    frequencies.push_back(divided * (1.0f - share) + kept * share);
  }
  return frequencies;
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * log_double(factor) + 1.0;
}

std::vector<float> long_frequencies(std::span<const double> factors, double base, int channels) {
  std::vector<float> frequencies;
  for (int i = 0; i < static_cast<int>(factors.size()); ++i) {
    const auto factor = static_cast<float>(factors[static_cast<size_t>(i)]);
    frequencies.push_back(1.0f / (factor * power(static_cast<float>(base), 2 * i, channels)));
  }
  return frequencies;
}

double long_scale(double factor, int trained_positions) {
  if (factor <= 1) return 1.0;
  return std::sqrt(1 + log_double(factor) / log_double(trained_positions));
}

double stretched_base(double base, double factor, int channels) {
  const double exponent = static_cast<double>(channels) / (channels - 2);
  return base * exp_double(exponent * log_double(factor * factor - (factor - 1)));
}

}  // namespace pagedinfer
