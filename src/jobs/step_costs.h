// How long a step takes, from a few measured ones.
#pragma once

#include <functional>
#include <vector>

#include "model/spec.h"

namespace pagedinfer {

// How many keys the tokens of a chunk attend to, as a mean over the layers, of which some may have
// a window.
class AttendedKeys {
 public:
  explicit AttendedKeys(const ModelSpec& spec);

  // Summed over the tokens at positions [start, start + count).
  double of(int start, int count) const;

 private:
  struct Window {
    int keys;  // 0: all
    double share;
  };
  std::vector<Window> windows_;
};

// What the cost of a step depends on. Keys are summed over its tokens.
struct StepShape {
  int decodes = 0, prefill_tokens = 0;
  double decode_keys = 0, prefill_keys = 0;
};

class StepCosts {
 public:
  // A step without the keys that its tokens attend to.
  struct Point {
    int tokens;
    double seconds;
  };

  // Ascending, one of each at least. Beyond the last one a line goes on from the last two, and
  // decodes cost as much more as prompts do.
  StepCosts(std::vector<Point> decodes, std::vector<Point> prefills, double per_decode_key,
            double per_prefill_key)
      : decodes_(std::move(decodes)),
        prefills_(std::move(prefills)),
        per_decode_key_(per_decode_key),
        per_prefill_key_(per_prefill_key) {}

  double seconds(const StepShape& shape) const;

 private:
  double decode_seconds(int tokens) const;

  std::vector<Point> decodes_, prefills_;
  double per_decode_key_, per_prefill_key_;
};

// A step of sequences of the same length: each computes `count` tokens behind `context` others, and
// draws one.
struct ProbedStep {
  int sequences = 1, count = 1, context = 0;
};

// The steps of the run that is to be foretold.
struct ProbedRun {
  int max_decodes = 1, max_sequences = 1, max_tokens = 1;  // in a step
  int prompt = 1;   // of a usual one, the tokens that a step computes
  int found = 0;    // of a usual one, the tokens that are in the cache
  int context = 1;  // of a usual decode
  int max_model_len = 2;
  double max_seconds = 4;  // that measuring may take, more or less
};

// Measures some of its steps and returns what they cost. `probe` computes a step and returns its
// seconds.
StepCosts calibrate(const ProbedRun& run, const AttendedKeys& keys,
                    const std::function<double(const ProbedStep&)>& probe);

}  // namespace pagedinfer
