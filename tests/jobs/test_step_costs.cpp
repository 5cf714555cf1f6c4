#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "jobs/step_costs.h"

namespace pagedinfer {
namespace {

ModelSpec spec_of(std::vector<int> windows) {
  ModelSpec spec;
  for (const int window : windows) spec.layers.push_back({.window = window});
  return spec;
}

// A device: weights are read once a step, tokens cost the same each, and so do keys.
struct FakeDevice {
  double weights = 0.010, per_token = 0.0004, per_row = 0.00005;
  double per_decode_key = 2e-7, per_prefill_key = 5e-8;

  double base(int tokens) const { return std::max(weights, tokens * per_token); }
  double seconds(const ProbedStep& step, const AttendedKeys& keys) const {
    const double attended = step.sequences * keys.of(step.context, step.count);
    return base(step.sequences * step.count) + step.sequences * per_row +
           attended * (step.count == 1 ? per_decode_key : per_prefill_key);
  }
  double seconds(const StepShape& shape) const {
    return base(shape.decodes + shape.prefill_tokens) + shape.decodes * per_row +
           shape.decode_keys * per_decode_key + shape.prefill_keys * per_prefill_key;
  }
};

}  // namespace

TEST_CASE("keys are counted token by token, layers with a window up to it") {
  std::mt19937 random(170);
  for (int round = 0; round < 200; ++round) {
    const int window = 1 + static_cast<int>(random() % 30);
    const AttendedKeys keys(spec_of({window, 0, window, window}));
    const int start = static_cast<int>(random() % 50), count = static_cast<int>(random() % 40);
    double expected = 0;
    for (int p = start; p < start + count; ++p) {
      expected += (3 * std::min(p + 1, window) + (p + 1)) / 4.0;
    }
    CHECK(keys.of(start, count) == doctest::Approx(expected));
  }
}

TEST_CASE("calibrated costs foretell steps of every shape") {
  std::mt19937 random(171);
  for (const int prompt : {3, 40, 500}) {
    for (const int window : {0, 100}) {
      const AttendedKeys keys(spec_of({0, window}));
      const FakeDevice device;
      double spent = 0;
      const ProbedRun run = {.max_decodes = 200,
                             .max_sequences = 256,
                             .max_tokens = 2048,
                             .prompt = prompt,
                             .context = prompt + 60,
                             .max_model_len = 4096,
                             .max_seconds = 30};
      const StepCosts costs = calibrate(run, keys, [&](const ProbedStep& step) {
        CHECK(step.sequences <= 256);
        CHECK(step.context + step.count <= 4096);
        const double noise = 1 + 0.02 * (static_cast<double>(random() % 101) / 50 - 1);
        const double seconds = noise * device.seconds(step, keys);
        spent += seconds;
        return seconds;
      });
      CHECK(spent < 35);
      for (int i = 0; i < 100; ++i) {
        const int decodes = static_cast<int>(random() % 200);
        const int tokens = decodes == 0 ? 1 + static_cast<int>(random() % 2000)
                                        : static_cast<int>(random() % 1800);
        StepShape shape = {.decodes = decodes, .prefill_tokens = tokens};
        shape.decode_keys = decodes * keys.of(static_cast<int>(random() % 2000), 1);
        shape.prefill_keys = keys.of(static_cast<int>(random() % 1000), tokens);
        CAPTURE(decodes);
        CAPTURE(tokens);
        const double expected = device.seconds(shape);
        CHECK(std::abs(costs.seconds(shape) - expected) < 0.15 * expected + 0.002);
      }
    }
  }
}

TEST_CASE("calibration of a slow device stops when its time is spent") {
  const AttendedKeys keys(spec_of({0}));
  const FakeDevice device = {.weights = 0.4, .per_token = 0.02};
  double spent = 0;
  const StepCosts costs = calibrate({.max_decodes = 256,
                                     .max_sequences = 256,
                                     .max_tokens = 2048,
                                     .prompt = 200,
                                     .context = 200,
                                     .max_model_len = 4096,
                                     .max_seconds = 4},
                                    keys, [&](const ProbedStep& step) {
                                      const double seconds = device.seconds(step, keys);
                                      spent += seconds;
                                      return seconds;
                                    });
  CHECK(spent < 20);  // all sizes take two minutes
  const StepShape large = {.decodes = 256};
  CHECK(costs.seconds(large) == doctest::Approx(device.seconds(large)).epsilon(0.2));
  const StepShape prompts = {.prefill_tokens = 2048};
  CHECK(costs.seconds(prompts) == doctest::Approx(device.seconds(prompts)).epsilon(0.2));
}

}  // namespace pagedinfer
