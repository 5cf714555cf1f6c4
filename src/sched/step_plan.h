#pragma once

#include <vector>

#include "sched/sequence.h"

namespace pagedinfer {

// Tokens [start, start + count) of a sequence, to be computed in one step. There are three kinds: a
// piece of a prompt (or of tokens computed again), a decode of one token, and a decode of several
// tokens, of which all but the first are guessed.
struct Chunk {
  Age age;     // of the sequence
  int sample;  // the sequence's
  int start, count;
  int num_scores;   // rows of logits that score a known token: the one that follows
  int num_logits;   // rows of logits, for the last tokens; the rows that draw come last: one for
                    // each token of a decode, and one or none for a piece of a prompt
  int num_samples;  // tokens drawn from each of the rows that draw
  bool is_beam = false;    // or the prompt of a beam search
  bool is_guided = false;  // the tokens that it draws must fit a form

  int num_drawing() const { return num_logits - num_scores; }
  bool completes() const { return num_drawing() > 0; }
  bool verifies() const { return num_drawing() > 1; }
};

// A token to draw, or to score: a row of StepProtocol::sample().
struct Draw {
  int chunk;       // index of the chunk that it follows
  Age age;         // of the sequence that gets it: the chunk's, or a sample that advance() forks
  int sample;      // that sequence's
  int position;    // of the token in its sequence
  int logits_row;  // of the step
  bool scores;     // draws the token that the prompt has at this position
};

// The work of one step, and the events of its planning.
struct StepPlan {
  std::vector<KvCopy> copies = {};  // as Batch::copies
  std::vector<Chunk> chunks = {};   // num_decodes decodes, then prefill
  std::vector<Draw> draws = {};     // in the order of chunks
  int num_tokens = 0, num_logits = 0, num_scores = 0;
  int num_decodes = 0, num_decode_tokens = 0;
  int num_admitted = 0, num_preempted = 0;
  int num_found = 0;  // tokens that are not computed because they are in the cache
  std::vector<PublishedBlock> published = {};  // blocks that this step fills
  // Whether the next plan may be made before this one is committed. False if it verifies guessed
  // tokens or continues beams: the results decide the next plan.
  bool may_overlap = true;
  bool is_guided = false;  // some drawn token must fit a form

  int num_prefills() const { return static_cast<int>(chunks.size()) - num_decodes; }

  // Adds a decode, which computes the guessed tokens too. REQUIRES: decodes are added first.
  void add_decode(const Sequence& seq) {
    const int count = 1 + seq.num_drafted;
    add({.age = seq.age,
         .sample = seq.sample,
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
         .sample = seq.sample,
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
      const int num_samples = scores ? 1 : chunk.num_samples;
      for (int sample = chunk.sample; sample < chunk.sample + num_samples; ++sample) {
        const bool forks = sample != chunk.sample;
        draws.push_back({.chunk = static_cast<int>(chunks.size()),
                         .age = forks ? Age{chunk.age.request, sample} : chunk.age,
                         .sample = sample,
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
