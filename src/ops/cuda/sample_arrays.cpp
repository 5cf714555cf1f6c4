#include "ops/cuda/sample_arrays.h"

#include <algorithm>
#include <cfloat>
#include <cstring>

#include "core/check.h"
#include "ops/cuda/device_arena.h"

namespace pagedinfer {
namespace {

constexpr int64_t kGranuleBytes = 16;

int64_t rounded_bytes(int64_t bytes) { return align_up(bytes, kGranuleBytes); }

bool has_penalty(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

// The ids in ascending order, each once: a request may repeat them, but there is room for one of
// each.
std::vector<int32_t> distinct(std::span<const TokenId> ids, int64_t vocab) {
  std::vector<int32_t> result(ids.begin(), ids.end());
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  CHECK(result.empty() || (result.front() >= 0 && result.back() < vocab));
  return result;
}

// How many rows at the beginning draw from the same row of logits.
int64_t num_alike(std::span<const SampleRow> rows) {
  const auto differs = [&](const SampleRow& row) { return row.logits_row != rows[0].logits_row; };
  return std::ranges::find_if(rows, differs) - rows.begin();
}

}  // namespace

void SampleArrays::clear() {
  rows.clear();
  biases.clear();
  tokens.clear();
  masks.clear();
  any_adjusted = any_drawn = any_filtered = any_report = any_candidates_in_mask = false;
  num_candidates = 0;
}

size_t SampleArrays::fill(std::span<const SampleRow> from, size_t num_before, int64_t vocab,
                          int64_t bytes) {
  clear();
  // The allowed, banned, prompt and generated tokens of all rows. They follow the biased tokens.
  std::vector<int32_t> others;
  size_t taken = 0;
  int32_t first_row = 0;  // of the rows that draw from the same row of logits
  for (; num_before + taken < from.size(); ++taken) {
    const size_t index = num_before + taken;
    const SampleRow& row = from[index];
    const SamplingParams& params = *row.params;
    const bool is_first = index == 0 || from[index - 1].logits_row != row.logits_row;
    const bool penalizes = is_first && has_penalty(params);
    const bool repetition = is_first && params.repetition_penalty != 1.0f;
    std::vector<int32_t> allowed, banned;
    std::span<const TokenBias> added;
    if (is_first) {
      allowed = distinct(row.allowed, vocab);
      banned = distinct(row.banned, vocab);
      added = params.logit_bias;
    }
    const std::span<const TokenId> prompt = repetition ? row.prompt : std::span<const TokenId>();
    const std::span<const TokenId> generated =
        penalizes ? row.generated : std::span<const TokenId>();

    const auto count = [](const auto& list) { return static_cast<int64_t>(list.size()); };
    const int64_t num_biases = count(biases) + count(added);
    const int64_t num_others =
        count(others) + count(allowed) + count(banned) + count(prompt) + count(generated);
    const bool reports = row.num_log_probs >= 0;
    if (is_first) {
      const int64_t num_rows = count(rows) + num_alike(from.subspan(index));
      const int64_t needed =
          rounded_bytes(num_rows * int64_t{sizeof(kernels::SampleRowArgs)}) +
          rounded_bytes(num_biases * 4) +
          (any_report || reports ? 2 : 1) * rounded_bytes((num_biases + num_others) * 4);
      if (taken > 0 && needed > bytes) break;
      first_row = static_cast<int32_t>(taken);
    }

    const auto range = [](int64_t begin, int64_t size) {
      return kernels::TokenRange{static_cast<int32_t>(begin), static_cast<int32_t>(size)};
    };
    const auto append = [&](std::span<const int32_t> list) {
      const kernels::TokenRange place = range(count(others), count(list));
      others.insert(others.end(), list.begin(), list.end());
      return place;
    };
    kernels::SampleRowArgs args = {};
    args.temperature = params.temperature;
    args.top_p = params.top_p;
    args.min_p = params.min_p;
    args.top_k = params.top_k;
    args.repetition_penalty = params.repetition_penalty;
    args.presence_penalty = params.presence_penalty;
    args.frequency_penalty = params.frequency_penalty;
    args.logits_row = row.logits_row;
    args.sample = row.sample;
    args.position = row.position;
    args.key = row.key;
    args.bias = range(count(biases), count(added));
    for (const TokenBias& bias : added) {
      CHECK(bias.token >= 0 && bias.token < vocab);
      tokens.push_back(bias.token);
      biases.push_back(bias.bias);
    }
    args.allowed = append(allowed);
    args.banned = append(banned);
    args.prompt = append(prompt);
    args.generated = append(generated);
    const bool drawn = params.temperature >= FLT_MIN;
    any_drawn |= drawn;
    any_filtered |= drawn && ((params.top_k > 0 && params.top_k < vocab) || params.top_p < 1.0f ||
                              params.min_p > 0.0f);
    args.first_row = first_row;
    args.candidates = num_candidates;
    args.num_candidates = is_first ? row.num_log_probs : -1;
    any_report |= reports;
    num_candidates += std::max(args.num_candidates, 0);
    const bool is_masked = is_first && !row.mask.empty();
    args.mask = is_masked ? static_cast<int32_t>(masks.size()) : -1;
    if (is_masked) {
      CHECK(std::ssize(row.mask) >= kernels::mask_words(vocab));
      masks.push_back(row.mask);
    }
    args.candidates_in_mask = is_masked && row.candidates_in_mask;
    any_candidates_in_mask |= args.candidates_in_mask != 0;
    args.adjusts = !added.empty() || !allowed.empty() || !banned.empty() || is_masked || penalizes;
    any_adjusted |= args.adjusts != 0;
    rows.push_back(args);
  }
  const auto offset = static_cast<int32_t>(tokens.size());
  for (kernels::SampleRowArgs& args : rows) {
    args.allowed.begin += offset;
    args.banned.begin += offset;
    args.prompt.begin += offset;
    args.generated.begin += offset;
  }
  tokens.insert(tokens.end(), others.begin(), others.end());
  return taken;
}

SampleArrays::Layout SampleArrays::layout() const {
  Layout layout;
  layout.biases = rounded_bytes(static_cast<int64_t>(rows.size() * sizeof(rows[0])));
  layout.tokens = layout.biases + rounded_bytes(static_cast<int64_t>(biases.size()) * 4);
  const int64_t token_bytes = rounded_bytes(static_cast<int64_t>(tokens.size()) * 4);
  layout.bytes = layout.tokens + token_bytes;
  layout.bytes_with_listed = layout.bytes + (any_report ? token_bytes : 0);
  return layout;
}

void SampleArrays::pack(char* to) const {
  const Layout at = layout();
  const auto copy = [&](int64_t offset, const auto& list) {
    if (!list.empty()) std::memcpy(to + offset, list.data(), list.size() * sizeof(list[0]));
  };
  copy(0, rows);
  copy(at.biases, biases);
  copy(at.tokens, tokens);
}

int64_t SampleArrays::mask_bytes(int64_t vocab) const {
  return std::ssize(masks) * kernels::mask_words(vocab) * int64_t{sizeof(uint32_t)};
}

void SampleArrays::pack_masks(char* to, int64_t vocab) const {
  const auto bytes = static_cast<size_t>(kernels::mask_words(vocab)) * sizeof(uint32_t);
  for (const std::span<const uint32_t> mask : masks) {
    std::memcpy(to, mask.data(), bytes);
    to += bytes;
  }
}

int64_t max_sample_bytes(int64_t vocab, int64_t context, int64_t num_rows) {
  // Every token biased, allowed and banned, and the tokens of the longest sequence.
  return rounded_bytes(num_rows * int64_t{sizeof(kernels::SampleRowArgs)}) +
         rounded_bytes(4 * vocab) + 2 * rounded_bytes(4 * (3 * vocab + context));
}

}  // namespace pagedinfer
