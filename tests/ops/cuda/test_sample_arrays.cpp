// The arrays that the CUDA backend copies to the device for sampling.
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "ops/cuda/sample_arrays.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {

TEST_CASE("rows that are sampled together fit, and their lists arrive as they are") {
  Random random{75};
  for (int run = 0; run < 300; ++run) {
    const int vocab = random.between(2, 90), context = random.between(1, 120);
    const int64_t bytes = max_sample_bytes(vocab, context, 3) + random.below(3000);
    const int count = random.between(1, 30);
    std::vector<SamplingParams> params(static_cast<size_t>(count));
    std::vector<std::vector<TokenId>> prompts(params.size()), generated(params.size()),
        allowed(params.size()), banned(params.size());
    std::vector<std::vector<uint32_t>> masks(params.size());
    std::vector<SampleRow> rows;
    const auto ids = [&](int most) {
      std::vector<TokenId> list(static_cast<size_t>(random.between(0, most)));
      for (TokenId& id : list) id = random.below(vocab);
      return list;
    };
    for (size_t i = 0; i < params.size(); ++i) {
      SamplingParams& p = params[i];
      if (random.below(2)) p.temperature = random.unit() + 0.1f;
      if (random.below(3) == 0) p.top_k = random.between(1, 2 * vocab);
      if (random.below(3) == 0) p.min_p = 0.1f;
      if (random.below(3) == 0) p.repetition_penalty = 1.5f;
      if (random.below(3) == 0) p.presence_penalty = 0.5f;
      if (random.below(3) == 0) p.logit_bias = random_biases(random, vocab, vocab);
      prompts[i] = ids(context / 2), generated[i] = ids(context / 2);
      if (random.below(2)) banned[i] = ids(400);
      if (random.below(2)) allowed[i] = ids(400);
      if (random.below(3) == 0) {
        masks[i].resize(static_cast<size_t>(vocab + 31) / 32 +
                        static_cast<size_t>(random.below(2)));
        for (uint32_t& word : masks[i]) word = static_cast<uint32_t>(random.bits());
      }
      SampleRow row = {.params = &p,
                       .prompt = prompts[i],
                       .generated = generated[i],
                       .allowed = allowed[i],
                       .banned = banned[i],
                       .mask = masks[i],
                       .candidates_in_mask = random.below(2) == 0,
                       .key = random.bits(),
                       .position = static_cast<uint32_t>(random.below(1000)),
                       .logits_row = static_cast<int>(i),
                       .num_log_probs = random.below(2) ? random.between(0, 9) : -1};
      for (int samples = random.between(1, 3); samples > 0; --samples, ++row.sample) {
        rows.push_back(row);
      }
    }
    SampleArrays arrays;
    for (size_t first = 0; first < rows.size();) {
      const size_t taken = arrays.fill(rows, first, vocab, bytes);
      REQUIRE(taken > 0);
      const SampleArrays::Layout at = arrays.layout();
      REQUIRE(at.bytes_with_listed <= bytes);
      std::vector<char> packed(static_cast<size_t>(at.bytes));
      arrays.pack(packed.data());
      const auto* args = reinterpret_cast<const kernels::SampleRowArgs*>(packed.data());
      const auto* biases = reinterpret_cast<const float*>(packed.data() + at.biases);
      const auto* tokens = reinterpret_cast<const int32_t*>(packed.data() + at.tokens);
      bool any_adjusted = false, any_drawn = false, any_filtered = false, any_report = false;
      bool any_in_mask = false;
      int num_candidates = 0;
      std::vector<char> packed_masks(static_cast<size_t>(arrays.mask_bytes(vocab)));
      arrays.pack_masks(packed_masks.data(), vocab);
      size_t num_masks = 0;
      for (size_t i = 0; i < taken; ++i) {
        const SampleRow& row = rows[first + i];
        const SamplingParams& p = *row.params;
        CHECK(args[i].key == row.key);
        CHECK(args[i].position == row.position);
        CHECK(args[i].sample == row.sample);
        CHECK(args[i].logits_row == row.logits_row);
        const auto listed = static_cast<size_t>(row.logits_row);
        const bool is_first = row.sample == 0;  // of its row of logits
        CHECK(args[i].first_row == static_cast<int>(i - row.sample));
        CHECK(args[i].num_candidates == (is_first ? row.num_log_probs : -1));
        CHECK(args[i].candidates == num_candidates);
        if (is_first) num_candidates += std::max(row.num_log_probs, 0);
        any_report |= row.num_log_probs >= 0;
        CHECK(args[i].temperature == p.temperature);
        CHECK(args[i].top_k == p.top_k);
        std::map<int, float> wanted, found;
        for (const TokenBias& bias : p.logit_bias) {
          if (is_first) wanted[bias.token] = bias.bias;
        }
        for (int j = args[i].bias.begin; j < args[i].bias.begin + args[i].bias.count; ++j) {
          CHECK(found.emplace(tokens[j], biases[j]).second);
        }
        CHECK(found == wanted);
        std::set<int> permits, bans;
        if (is_first) {
          permits.insert(allowed[listed].begin(), allowed[listed].end());
          bans.insert(banned[listed].begin(), banned[listed].end());
        }
        const auto list = [&](kernels::TokenRange range) {
          return std::vector<int>(tokens + range.begin, tokens + range.begin + range.count);
        };
        CHECK(list(args[i].banned) == std::vector<int>(bans.begin(), bans.end()));
        CHECK(list(args[i].allowed) == std::vector<int>(permits.begin(), permits.end()));
        const bool repetition = is_first && p.repetition_penalty != 1.0f;
        const bool penalty = repetition || (is_first && p.presence_penalty != 0.0f);
        CHECK(list(args[i].prompt) == (repetition ? prompts[listed] : std::vector<int>()));
        CHECK(list(args[i].generated) == (penalty ? generated[listed] : std::vector<int>()));
        const bool is_masked = is_first && !masks[listed].empty();
        CHECK(args[i].mask == (is_masked ? static_cast<int>(num_masks) : -1));
        if (is_masked) {
          const size_t mask_size = static_cast<size_t>(vocab + 31) / 32 * sizeof(uint32_t);
          REQUIRE((num_masks + 1) * mask_size <= packed_masks.size());
          CHECK(std::memcmp(packed_masks.data() + num_masks++ * mask_size, masks[listed].data(),
                            mask_size) == 0);
        }
        const bool in_mask = is_masked && row.candidates_in_mask;
        CHECK((args[i].candidates_in_mask != 0) == in_mask);
        any_in_mask |= in_mask;
        const bool adjusts =
            penalty || !permits.empty() || !bans.empty() || is_masked || !wanted.empty();
        CHECK((args[i].adjusts != 0) == adjusts);
        any_adjusted |= adjusts;
        any_drawn |= p.temperature > 0;
        any_filtered |= p.temperature > 0 && ((p.top_k > 0 && p.top_k < vocab) || p.min_p > 0);
      }
      CHECK(arrays.any_adjusted == any_adjusted);
      CHECK(arrays.any_drawn == any_drawn);
      CHECK(arrays.any_filtered == any_filtered);
      CHECK(arrays.any_report == any_report);
      CHECK(arrays.any_candidates_in_mask == any_in_mask);
      CHECK(arrays.num_candidates == num_candidates);
      const int64_t num_listed = std::ssize(arrays.tokens);
      CHECK(at.bytes_with_listed - at.bytes >= (any_report ? 4 * num_listed : 0));
      first += taken;
    }
  }
}

}  // namespace pagedinfer
