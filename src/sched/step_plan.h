#pragma once

#include <vector>

#include "sched/sequence.h"

namespace pagedinfer {

// Compute tokens [start, start + count) of a sequence. There are three kinds: a piece of a prompt
// (or of tokens computed again), a decode of one token, and a decode of several tokens, all but the
// first of which are guessed.
struct Chunk {
  int64_t age;  // of the sequence
  int start, count;
  int num_scores;   // rows of logits that score a known token: the one that follows
  int num_logits;   // all rows, of its last tokens; those that draw come last: none, one or, of a
                    // decode, one for each token
  int num_samples;  // tokens drawn from each of the rows that draw
  bool is_beam = false;    // or the prompt of a beam search
  bool is_guided = false;  // what it draws must have a form

  int num_drawing() const { return num_logits - num_scores; }
  bool completes() const { return num_drawing() > 0; }
  bool verifies() const { return num_drawing() > 1; }
};

// A token to draw, or to score: a row of StepProtocol::sample().
struct Draw {
  int chunk;       // index of the chunk that it follows
  int64_t age;     // of the sequence that gets it: the chunk's, or a sample that advance() forks
  int position;    // of the token in its sequence
  int logits_row;  // of the step
  bool scores;     // draws the token that the prompt has at this position
};

// What one step does, and how it came to be.
struct StepPlan {
  std::vector<KvCopy> copies = {};  // as Batch::copies
  std::vector<Chunk> chunks = {};   // num_decodes decodes, then prefill
  std::vector<Draw> draws = {};     // in the order of chunks
  int num_tokens = 0, num_logits = 0, num_scores = 0;
  int num_decodes = 0, num_decode_tokens = 0;
  int num_admitted = 0, num_preempted = 0;
  int num_found = 0;  // tokens that are not computed because they are in the cache
  std::vector<PublishedBlock> published = {};  // blocks that this step fills
  // Whether the next plan may be made before this one is committed. How many guessed tokens hold,
  // and which beams go on, is not known earlier.
  bool may_overlap = true;
  bool is_guided = false;  // some draw must have a form

  int num_prefills() const { return static_cast<int>(chunks.size()) - num_decodes; }

  // REQUIRES: decodes are added first. These compute the guessed tokens too.
  void add_decode(const Sequence& seq) {
    const int count = 1 + seq.num_drafted;
    add({.age = seq.age,
         .start = seq.num_computed,
         .count = count,
         .num_scores = 0,
         .num_logits = count,
         .num_samples = 1,
         .is_beam = seq.is_beam(),
         .is_guided = seq.is_guided()},
        true);
  }
  void add_prefill(const Sequence& seq, int count) {
    const int scores = seq.num_scores(count);
    add({.age = seq.age,
         .start = seq.num_computed,
         .count = count,
         .num_scores = scores,
         .num_logits = scores + (count == seq.num_pending() && seq.draws()),
         .num_samples = seq.num_samples(),
         .is_beam = seq.is_beam(),
         .is_guided = seq.is_guided()},
        false);
  }

  void add(const Chunk& chunk, bool is_decode) {
    for (int i = 0; i < chunk.num_logits; ++i) {
      const bool scores = i < chunk.num_scores;
      for (int sample = 0; sample < (scores ? 1 : chunk.num_samples); ++sample) {
        draws.push_back({.chunk = static_cast<int>(chunks.size()),
                         .age = chunk.age + sample,
                         .position = chunk.start + chunk.count - chunk.num_logits + i + 1,
                         .logits_row = num_logits + i,
                         .scores = scores});
      }
    }
    chunks.push_back(chunk);
    num_tokens += chunk.count;
    num_logits += chunk.num_logits;
    num_scores += chunk.num_scores;
    num_decodes += is_decode;
    num_decode_tokens += is_decode ? chunk.count : 0;
    may_overlap = may_overlap && !chunk.verifies() && !(chunk.is_beam && chunk.completes());
    is_guided = is_guided || (chunk.is_guided && chunk.completes());
  }
};

}  // namespace pagedinfer
