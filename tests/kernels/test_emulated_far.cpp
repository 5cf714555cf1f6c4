// Kernels that write, copy and read at the end of a cache of 6 * 10^10 elements, whose offsets need
// more than 32 bits, give the bits that they give in a small cache.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include "kernels/attention.h"
#include "kernels/kv.h"
#include "kernels/rope.h"
#include "tests/emulated_cuda/device_support.h"

namespace pagedinfer::kernels {
namespace {

// Zeros, which take memory only where they are written.
class LazyBytes {
 public:
  explicit LazyBytes(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    REQUIRE(data_ != MAP_FAILED);
  }
  ~LazyBytes() { munmap(data_, bytes_); }
  LazyBytes(const LazyBytes&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  size_t bytes_;
  void* data_;
};

struct Layout {
  int64_t positions, first;  // of the cache; the tokens' positions begin at `first`
};

// Attention of a prompt whose keys and values are written to the cache and then copied within it.
template <class T>
std::vector<float> attend(const Layout& at, int dim, bool int8, float softcap) {
  constexpr int kHeads = 16, kKvHeads = 8, kTokens = 300, kBlock = 16;
  constexpr int kBlocks = (kTokens + kBlock - 1) / kBlock, kCopied = kBlocks * kBlock;
  const int64_t bytes = at.positions * kv_position_bytes(int8 ? 1 : sizeof(T), kKvHeads, dim);
  const LazyBytes k(bytes), v(bytes);
  const LazyBytes k_scale(at.positions * kKvHeads * 4), v_scale(at.positions * kKvHeads * 4);
  KvCache cache = {k.as<void>(), v.as<void>(), kKvHeads, dim, at.positions};
  if (int8) cache.k_scale = k_scale.as<float>(), cache.v_scale = v_scale.as<float>();
  Random random{7};
  GuardedMatrix<T> qkv(random, kTokens, (kHeads + 2 * kKvHeads) * dim, true);
  GuardedMatrix<T> out(random, kTokens, kHeads * dim, true);
  qkv.fill(random);
  const auto columns = [&](int first_head) {
    return Matrix{&qkv.at(0, int64_t{first_head} * dim), qkv.matrix().stride};
  };

  const auto first = static_cast<int32_t>(at.first), copy_to = first + 500;
  std::vector<int32_t> slots, positions, table;
  const std::vector<int32_t> starts = {0, kTokens};
  const auto block_of = [](int i) { return i * 7 % kBlocks * kBlock; };
  for (int t = 0; t < kTokens; ++t) {
    positions.push_back(t);
    slots.push_back(first + block_of(t / kBlock) + t % kBlock);
  }
  for (int i = 0; i < kBlocks; ++i) table.push_back(copy_to + block_of(i));
  launch_qkv({.type = kTypeOf<T>,
              .q = columns(0),
              .k = columns(kHeads),
              .v = columns(kHeads + kKvHeads),
              .num_rows = kTokens,
              .heads = kHeads,
              .slot_mapping = slots.data(),
              .cache = cache},
             nullptr);
  launch_copy_kv({kTypeOf<T>, &first, &copy_to, &kCopied, 1, cache}, nullptr);

  AttentionPlan plan;
  plan_attention(starts, positions, kHeads / kKvHeads, 0, {.max_states = 0, .blocks_at_once = 1},
                 plan);
  const auto work = [](const AttentionTiles& tiles) {
    return AttentionWork{tiles.items.data(), static_cast<int>(tiles.items.size())};
  };
  launch_attention({.type = kTypeOf<T>,
                    .q = columns(0),
                    .out = out.matrix(),
                    .cache = cache,
                    .heads = kHeads,
                    .scale = 0.1f,
                    .window = 0,
                    .softcap = softcap,
                    .positions = positions.data(),
                    .query_starts = starts.data(),
                    .block_table = table.data(),
                    .num_tokens = kTokens,
                    .num_seqs = 1,
                    .max_blocks = kBlocks,
                    .block_size = kBlock,
                    .small = work(plan.small),
                    .large = work(plan.large),
                    .num_states = 0,
                    .max_shared_bytes = 227 << 10,
                    .workspace = nullptr,
                    .counters = nullptr},
                   nullptr);
  std::vector<float> values;
  for (int t = 0; t < kTokens; ++t) {
    for (int i = 0; i < kHeads * dim; ++i) values.push_back(out(t, i));
  }
  return values;
}

template <class T>
void check_far(int dim, bool int8, float softcap = 0.0f) {
  INFO(dim, " dimensions, ", int8 ? "in int8" : "", softcap > 0.0f ? ", with a cap" : "");
  const Layout near = {2000, 100}, far = {60'000'000, 59'990'000};
  const std::vector<float> expected = attend<T>(near, dim, int8, softcap);
  CHECK(attend<T>(far, dim, int8, softcap) == expected);
  // Neither zeros nor NaN.
  CHECK(std::ranges::count_if(expected, [](float x) { return x != 0 && x == x; }) >
        std::ssize(expected) / 2);
}

}  // namespace

TEST_CASE("the GPU's caches may have more than 2^35 elements") {
  check_far<__nv_bfloat16>(128, false);
  check_far<__half>(64, true);
  check_far<__nv_bfloat16>(256, true);
  check_far<__nv_bfloat16>(96, false);
  check_far<__nv_bfloat16>(64, false, 30.0f);
  check_far<float>(48, true);
}

}  // namespace pagedinfer::kernels
