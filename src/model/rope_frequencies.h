// Frequencies of rotary position embedding, in radians per position, rounded as in Hugging Face
// transformers. docs/numerics.md states them.
#pragma once

#include <span>
#include <vector>

namespace pagedinfer {

// 1 / base^(2 i / channels) for i < channels / 2, rounded up. REQUIRES: base >= 1.
std::vector<float> default_frequencies(double base, int channels);

// Divides the frequencies of long wavelengths by the factor, keeps those of short ones, and
// interpolates between the two, as the Llama 3.1 release defines it.
struct Llama3Scaling {
  float factor, low_frequency_factor, high_frequency_factor;
  float trained_positions;
};
void scale_llama3(const Llama3Scaling& scaling, std::vector<float>& frequencies);

// YaRN (Peng et al. 2023): channels that turn more than beta_fast times within the trained
// positions keep their frequency, those that turn less than beta_slow times are divided by the
// factor, and between them the two are mixed.
struct YarnScaling {
  double factor, beta_fast = 32, beta_slow = 1;
  int trained_positions;
  bool truncates = true;  // the bounds are whole channels
};
// REQUIRES: base > 1.
std::vector<float> yarn_frequencies(const YarnScaling& scaling, double base, int channels);
double yarn_scale(double factor, double mscale = 1);  // of cosines and sines

// LongRoPE (Ding et al. 2024): a factor for each frequency.
std::vector<float> long_frequencies(std::span<const double> factors, double base, int channels);
// Of cosines and sines. REQUIRES: trained_positions > 1.
double long_scale(double factor, int trained_positions);

// The base with which "dynamic" scaling stretches `trained_positions` to `factor` times as many.
// REQUIRES: channels > 2, factor >= 1.
double stretched_base(double base, double factor, int channels);

}  // namespace pagedinfer
