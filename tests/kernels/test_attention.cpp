// The index arithmetic of the GPU's attention, run on the CPU: what each thread block would read
// and compute, against loops over everything.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "kernels/attention_state.h"
#include "kernels/attention_tile.h"
#include "kernels/kv_layout.h"
#include "tests/support/ops_support.h"
#include "tests/support/sanitized.h"

using namespace pagedinfer;
namespace gpu = pagedinfer::kernels;
using namespace gpu;

namespace {

struct Step {
  std::vector<int32_t> query_starts = {0}, positions = {}, block_table = {};
  int block_size = 1, max_blocks = 1;

  int num_seqs() const { return static_cast<int>(query_starts.size()) - 1; }
};

// Sequences that decode, begin or continue, in scattered blocks.
Step random_step(Random& random) {
  Step step;
  step.block_size = std::array{1, 2, 3, 8, 16, 48, 256, 4096}[random.below(8)];
  step.max_blocks = (4096 + step.block_size - 1) / step.block_size;
  const int num_seqs = random.below(6);
  for (int seq = 0; seq < num_seqs; ++seq) {
    const int queries = random.below(2) ? 1 : random.below(200);
    const int offset = random.below(4) ? random.below(1500) : 0;
    for (int i = 0; i < queries; ++i) step.positions.push_back(offset + i);
    step.query_starts.push_back(static_cast<int32_t>(step.positions.size()));
    const int base = seq * 1'000'000;
    for (int b = 0; b < step.max_blocks; ++b) {
      step.block_table.push_back(base + (step.max_blocks - 1 - b) * step.block_size);
    }
  }
  return step;
}

AttentionLimits random_limits(Random& random) {
  return {.max_states = random.below(3) ? 1 << 20 : random.below(2000),
          .blocks_at_once = std::array{0, 1, 2, 10, 1000}[random.below(5)]};
}

bool is_visible(int key, int position, int window) {
  return key <= position && key >= first_visible(position, window);
}

}  // namespace

TEST_CASE("every query's visible keys are attended to exactly once, whatever the plan") {
  Random random{1};
  AttentionPlan plan;
  int64_t cuts = 0, windowed_cuts = 0, whole = 0;
  for (int round = 0; round < scaled(250); ++round) {
    const Step step = random_step(random);
    const int group = std::array{1, 2, 3, 4, 7, 8, 17, 71}[random.below(8)];
    const int window = random.below(2) ? 0 : 1 + random.below(700);
    const AttentionLimits limits = random_limits(random);
    plan_attention(step.query_starts, step.positions, group, window, limits, plan);
    REQUIRE(plan.num_states <= limits.max_states);
    std::map<std::pair<int, int>, std::vector<int>> attended;  // by sequence and row
    std::set<int64_t> states;
    int64_t wrong = 0;
    for (const AttentionTiles* tiles : {&plan.small, &plan.large}) {
      const int tile_rows = tiles == &plan.small ? kSmallTileRows : kLargeTileRows;
      std::map<int, std::vector<AttentionItem>> of_cut;
      for (const AttentionItem& item : tiles->items) {
        const Tile tile = make_tile(item, group, tile_rows, window);
        wrong += item.start != step.query_starts[item.seq];
        wrong += tile.num_rows < 1 || tile.num_rows > tile_rows;
        wrong += tile.first_key >= tile.end_key;  // a thread block without work
        wrong += (item.state >= 0) != (item.cut >= 0);
        whole += item.state < 0 && item.end_segment - item.first_segment > 1;
        if (item.state >= 0) {
          of_cut[item.cut].push_back(item);
          wrong += item.end_segment != item.first_segment + 1;
          for (int row = 0; row < tile.num_rows; ++row) {
            wrong += !states.insert(item.state + row).second;
            wrong += item.state + row >= plan.num_states;
          }
        }
        for (int row = 0; row < tile.num_rows; ++row) {
          const int index = tile.first_row + row;
          const int position = step.positions[tile.start + index / group];
          auto& keys = attended[{item.seq, index}];
          for (int key = tile.first_key; key < tile.end_key; ++key) {
            if (is_visible(key, position, window)) keys.push_back(key);
          }
          for (int first = tile.first_key / 64 * 64; first < tile.end_key; first += 64) {
            if (!all_visible(first, first + 64, tile.first_position, tile.last_position, window)) {
              continue;
            }
            for (int key = first; key < first + 64; ++key) {
              wrong +=
                  !is_visible(key, position, window) || key < tile.first_key || key >= tile.end_key;
            }
          }
        }
      }
      // What the last thread block of a cut tile waits for and reads is what the others write.
      wrong += std::ssize(of_cut) != tiles->num_cuts;
      for (const auto& [cut, items] : of_cut) {
        wrong += cut >= tiles->num_cuts;
        for (const AttentionItem& item : items) {
          const SegmentRange segments = segments_of_cut(item, group, window);
          wrong += segments.end - segments.begin != std::ssize(items);
          const auto other = std::ranges::find_if(
              items, [&](const auto& i) { return i.first_segment == segments.begin; });
          wrong +=
              other == items.end() ||
              other->state != item.state - (item.first_segment - segments.begin) * item.seq_rows;
        }
        ++cuts;
        windowed_cuts += items[0].first_segment > 0;
      }
    }
    for (int seq = 0; seq < step.num_seqs(); ++seq) {
      const int start = step.query_starts[seq];
      for (int row = 0; row < (step.query_starts[seq + 1] - start) * group; ++row) {
        std::vector<int> expected;
        const int position = step.positions[start + row / group];
        for (int key = 0; key <= position; ++key) {
          if (window == 0 || key > position - window) expected.push_back(key);
        }
        auto& keys = attended[{seq, row}];
        std::sort(keys.begin(), keys.end());
        wrong += keys != expected;
      }
    }
    REQUIRE(wrong == 0);
  }
  CHECK(cuts > scaled(20));
  CHECK(windowed_cuts > scaled(5));
  CHECK(whole > scaled(20));
}

TEST_CASE("tiles are cut where their number leaves a device without work, and only there") {
  // Decodes of 3 segments, 8 KV heads, 3 thread blocks on each of 132 multiprocessors.
  const AttentionLimits limits = {.max_states = 1 << 20, .blocks_at_once = 3 * 132 / 8};
  const auto num_items = [&](int num_seqs, int longest) {
    std::vector<int32_t> starts = {0}, positions;
    for (int i = 0; i < num_seqs; ++i) {
      starts.push_back(i + 1);
      positions.push_back(i == num_seqs / 2 ? longest - 1 : 600);
    }
    AttentionPlan plan;
    plan_attention(starts, positions, 3, 0, limits, plan);
    const auto segments = [](const AttentionItem& i) { return i.end_segment - i.first_segment; };
    for (size_t i = 1; i < plan.small.items.size(); ++i) {
      CHECK(segments(plan.small.items[i - 1]) >= segments(plan.small.items[i]));
    }
    return std::ssize(plan.small.items);
  };
  CHECK(num_items(1, 600) == 3);
  CHECK(num_items(64, 600) == 3 * 64);
  CHECK(num_items(128, 600) == 128);
  CHECK(num_items(256, 600) == 256);
  CHECK(num_items(256, 8192) == 255 + 32);  // one that the others would not wait for
}

TEST_CASE("a key is read where the block table says") {
  Random random{3};
  for (int round = 0; round < 50; ++round) {
    Step step;
    while (step.num_seqs() == 0) step = random_step(random);
    const BlockDivisor divisor = block_divisor(step.block_size);
    int64_t wrong = 0;
    for (int seq = 0; seq < step.num_seqs(); ++seq) {
      const int32_t* const row = &step.block_table[seq * step.max_blocks];
      for (int i = 0; i < 500; ++i) {
        const int key = random.below(4096), block = key / step.block_size;
        wrong += cache_position(row, divisor, key) != row[block] + key % step.block_size;
      }
    }
    CHECK(wrong == 0);
  }
}

template <int D>
static void check_shared_rows() {
  CAPTURE(D);
  using Rows = SharedRows<D>;
  std::set<int> offsets;
  for (int row = 0; row < 128; ++row) {
    for (int vec = 0; vec < Rows::kVecs; ++vec) {
      const int offset = Rows::offset(row, vec);
      REQUIRE((offset % 8 == 0 && offset / Rows::kStride == row));
      REQUIRE(offset == Rows::offset(row % 8, vec) + row / 8 * 8 * Rows::kStride);
      offsets.insert(offset);
      std::set<int> groups;  // of 16 bytes; the banks hold eight of them side by side
      for (int r = 0; r < 8; ++r) groups.insert(Rows::offset(row + r, vec) / 8 % 8);
      REQUIRE((row % 8 != 0 || groups.size() == 8));
    }
  }
  CHECK(offsets.size() == 128u * Rows::kVecs);
}

TEST_CASE(
    "rows in shared memory do not overlap, and reads at the same time have no bank conflict") {
  check_shared_rows<64>();
  check_shared_rows<80>();
  check_shared_rows<96>();
  check_shared_rows<128>();
  check_shared_rows<256>();
}

TEST_CASE("thread blocks that share an item have each of its rows and states once") {
  Random random{6};
  AttentionPlan plan;
  for (int round = 0; round < 100; ++round) {
    const Step step = random_step(random);
    const int group = 1 + random.below(20), part_rows = std::array{16, 64, 128}[random.below(3)];
    const int window = random.below(2) ? 0 : 1 + random.below(700);
    plan_attention(step.query_starts, step.positions, group, window, random_limits(random), plan);
    for (const AttentionItem& item : plan.large.items) {
      const Tile whole = make_tile(item, group, kLargeTileRows, window);
      int rows = 0, end_key = whole.first_key;
      for (int row = 0; row < kLargeTileRows; row += part_rows) {
        const Tile tile = make_part(item, row, part_rows, group, kLargeTileRows, window);
        if (tile.num_rows <= 0) {
          REQUIRE(tile.first_key >= tile.end_key);
          continue;
        }
        REQUIRE((tile.first_row == whole.first_row + rows && rows == row));
        REQUIRE(rows_from(item, row).state == (item.state < 0 ? item.state : item.state + row));
        if (item.state >= 0) {  // what the combine step reads is written for every row
          REQUIRE((tile.first_key == whole.first_key && tile.end_key == whole.end_key));
        }
        rows += tile.num_rows;
        end_key = max_of(end_key, tile.end_key);
      }
      REQUIRE(rows == whole.num_rows);
      REQUIRE((whole.first_key >= whole.end_key || end_key == whole.end_key));
    }
  }
}

TEST_CASE("a token's sequence is found among empty ones") {
  Random random{4};
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> starts = {0};
    const int num_seqs = 1 + random.below(9);
    for (int i = 0; i < num_seqs; ++i) starts.push_back(starts.back() + random.below(4));
    for (int token = 0; token < starts.back(); ++token) {
      const int seq = sequence_of(starts.data(), num_seqs, token);
      REQUIRE(starts[seq] <= token);
      REQUIRE(token < starts[seq + 1]);
    }
  }
}

TEST_CASE("states are combined with the CPU backend's bits") {
  Random random{5};
  const FlushDenormals guard;
  constexpr int kDim = 16;
  for (int round = 0; round < 500; ++round) {
    gpu::AttentionState total = {-INFINITY, 0}, part = {-INFINITY, 0};
    std::vector<float> out(kDim), part_out(kDim);
    const auto fill = [&](gpu::AttentionState& state, std::vector<float>& x) {
      state = {random.normal() * 20, 1 + 255 * random.unit()};
      x = random.normals(kDim, 3);
    };
    if (random.below(4)) fill(total, out);
    if (random.below(4)) fill(part, part_out);
    float expected[2] = {total.max, total.sum};
    std::vector<float> expected_out = out;
    kPortableKernels.attention_float.combine({&expected[0], &expected[1], expected_out.data()},
                                             {&part.max, &part.sum, part_out.data()}, 1, kDim);
    const CombineScales scales = gpu::combine(total, part, exact_exp);
    for (int d = 0; d < kDim; ++d) out[d] = combined(out[d], part_out[d], scales);
    REQUIRE(same(total.max, expected[0]));
    REQUIRE(same(total.sum, expected[1]));
    REQUIRE(count_differences(out, expected_out) == 0);
  }
}

TEST_CASE("rows of the GPU's cache are whole vectors, and no two positions share any") {
  for (const int bytes : {2, 4}) {
    for (int dim = 1; dim <= 300; ++dim) {
      const int row = kv_row_elements(dim, bytes);
      CHECK((row >= dim && row * bytes % 16 == 0 && (row - dim) * bytes < 16));
    }
  }
  std::set<int64_t> offsets;
  for (int head = 0; head < 3; ++head) {
    for (int position = 0; position < 5; ++position) {
      offsets.insert(kv_offset(head, position, 5, 8));
    }
  }
  CHECK(offsets.size() == 15);
  CHECK(*offsets.rbegin() == 14 * 8);
  // Beyond 2^31 elements.
  CHECK(kv_offset(7, 3'999'999, 4'000'000, 256) == (7 * int64_t{4'000'000} + 3'999'999) * 256);
}
