// Draws tokens from rows of logits, as the CPU backend does: logit bias, allowed tokens, banned
// tokens, mask, penalties, temperature, top-k, top-p, min-p, then one draw by inversion. Equal
// logits give the same token as on the CPU: candidates are ordered by logit (descending) and id;
// weights are exact_exp(), summed in blocks of 256 (16 interleaved sums and a tree); block sums are
// added in ascending order in double. Rows may also ask for the numbers from which log
// probabilities are computed.
#pragma once

#include "kernels/host_device.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// A range of SampleArgs::tokens.
struct TokenRange {
  int32_t begin, count;
};

struct SampleRowArgs {
  int32_t logits_row;
  int32_t adjusts;    // whether the ranges, mask and penalties are applied to the row of logits
  float temperature;  // below the smallest normal float: greedy
  float top_p, min_p;
  int32_t top_k;
  float repetition_penalty, presence_penalty, frequency_penalty;
  uint32_t sample, position;
  uint64_t key;
  TokenRange bias;               // each token once; its bias is at the same index of `biases`
  TokenRange allowed;            // empty: all tokens
  TokenRange banned;             // each token once
  int32_t mask = -1;             // row of SampleArgs::masks; -1: all tokens
  TokenRange prompt, generated;  // may be left empty without penalties
  // Read if SampleArgs::report is filled in.
  int32_t first_row;       // the first of the rows that draw from this row of logits
  int32_t num_candidates;  // to report, at most kMaxReported; -1: no report. Of first_row only
  int32_t candidates;      // where they go in SampleReport::candidates
  int32_t candidates_in_mask = 0;  // whether they are of the row's mask only. Of first_row only
};

// The numbers from which log probabilities are computed. A *raw* logit is not adjusted yet.
struct RawLogit {
  int32_t id;
  float logit;
};
struct RawRow {
  double sum;              // of exp(logit - largest), added as the weights of a draw
  float largest;           // -infinity: no logit is finite
  int32_t num_candidates;  // less than asked for if fewer logits are finite
};
struct SampleReport {
  RawRow* rows = nullptr;          // (num_rows), for rows that ask for candidates, be it for 0
  RawLogit* candidates = nullptr;  // those of a row are ordered as for a draw
  // (num_rows) Raw logit of the drawn token or, if none can be drawn and only one is allowed, of
  // the allowed one; NaN if there is no such token.
  float* drawn = nullptr;
  float* listed = nullptr;  // parallel to SampleArgs::tokens: working memory
};
// Of a row of SampleArgs::masks.
KERNEL_HD constexpr int64_t mask_words(int64_t vocabulary) { return (vocabulary + 31) / 32; }
constexpr int kMaxReported = 4096;
constexpr int kMaxVocabulary = (1 << 20) - 1;

struct SampleArgs {
  // (largest logits_row + 1, vocabulary); adjusted in place. REQUIRES: of the rows that draw from
  // one row of logits at most one adjusts it.
  float* logits;
  int64_t stride;
  int num_rows, vocabulary;   // kMaxVocabulary at most
  const SampleRowArgs* rows;  // (num_rows), device
  const int32_t* tokens;      // of all ranges; ids of the vocabulary, or placeholder tokens
  const int32_t* drawn;       // values of the placeholder tokens in `generated` (drawn_tokens.h)
  const float* biases;        // parallel to `tokens`; read for bias ranges only
  // Bit t % 32 of word t / 32 of a row says whether token t can be drawn.
  const uint32_t* masks = nullptr;  // rows of mask_words(vocabulary)
  // Whether any row has ...; false saves a launch, true is always correct.
  bool any_adjusted;  // a bias, allowed or banned tokens, a mask, or penalties
  bool any_drawn;     // a temperature: not all are greedy
  bool any_filtered;  // top-k, top-p or min-p
  bool any_candidates_in_mask = false;
  SampleReport report = {};  // all null: no row asks for one
  int32_t* out;              // (num_rows): the token, or -1 where no logit is finite
  void* workspace;           // sample_workspace_bytes(), 16-byte aligned
};

// Bytes of SampleArgs::workspace.
int64_t sample_workspace_bytes(int64_t num_rows, int64_t vocabulary);
void launch_sample(const SampleArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
