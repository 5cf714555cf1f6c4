#pragma once

#include <vector>

#include "sched/sequence.h"

namespace pagedinfer {

// Compute tokens [start, start + count) of `seq`.
struct Chunk {
  Sequence* seq;  // gone once it has ended; its age tells
  int64_t age;
  int start, count;
  bool completes;  // a token is sampled after it
};

// What one step does, and how it came to be.
struct StepPlan {
  std::vector<Chunk> chunks = {};  // num_decodes decodes, then prefill
  int num_tokens = 0, num_decodes = 0;
  int num_admitted = 0, num_preempted = 0;

  int num_prefills() const { return static_cast<int>(chunks.size()) - num_decodes; }
  void add(Sequence& seq, int count) {
    chunks.push_back({&seq, seq.age, seq.num_computed, count, count == seq.num_pending()});
    num_tokens += count;
  }
};

}  // namespace pagedinfer
