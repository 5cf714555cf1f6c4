#include "ops/cuda/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/check.h"
#include "core/error.h"
#include "core/hash.h"
#include "ops/cuda/device_error.h"
#include "ops/cuda/product_cache.h"
#include "ops/cuda/product_proof.h"
#include "ops/cuda/product_timing.h"

namespace pagedinfer {
namespace {

// Beyond it cuBLAS's own indices may overflow.
constexpr int64_t kMaxElements = int64_t{1} << 31;

// Proposals that are timed for one bucket, and those whose bits are compared.
constexpr size_t kMaxTimed = 4, kMaxCompared = 4;

AlgorithmRule free_rule(const ProductKey& key) {
  return may_split(key.k) ? AlgorithmRule::kAny : AlgorithmRule::kUnsplit;
}

// Which algorithms serve deterministic products, the best first.
std::vector<AlgorithmRule> fixed_rules(const ProductKey& key) {
  if (key.in == DType::kF32) return {AlgorithmRule::kUnsplit};
  return {AlgorithmRule::kUnsplitOnTensor, AlgorithmRule::kUnsplit};
}

[[noreturn]] void throw_no_algorithm(const ProductKey& key, int64_t rows) {
  throw Error(fmt::format("cuBLAS has no algorithm for a product of {} rows of {} {} by {}", rows,
                          key.k, name_of(key.in), key.n));
}

void check_no_capture(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "to choose an algorithm");
  CHECK(status == cudaStreamCaptureStatusNone);
}

uint64_t hash_of(uint64_t hash, const ProductKey& key, int64_t bucket,
                 const ProductAlgorithm& algorithm) {
  for (const int64_t word : words_of(key)) hash = hash_word(hash, static_cast<uint64_t>(word));
  hash = hash_word(hash, static_cast<uint64_t>(bucket));
  for (const uint64_t word : algorithm) hash = hash_word(hash, word);
  return hash;
}

}  // namespace

CudaProducts::CudaProducts(bool deterministic) : deterministic_(deterministic) {}

void CudaProducts::run(const Tensor& x, std::span<const Product> products, void* workspace,
                       cudaStream_t stream) {
  while (!products.empty()) {
    const int64_t count = num_fusible(products);
    const Product product = fuse(products, count);
    products = products.subspan(static_cast<size_t>(count));
    const Tensor &weight = product.weight, &out = product.out;
    CHECK(weight.cols == x.cols && out.rows == x.rows && out.cols == weight.rows);
    CHECK(weight.dtype == x.dtype && (out.dtype == x.dtype || out.dtype == DType::kF32));
    if (x.rows == 0) continue;
    const ProductKey key = key_of(x, product);
    Entry& entry = entry_for(key);
    library_.multiply(entry.layouts, {x.data, weight.data, out.data, x.rows, workspace},
                      algorithm_for(key, entry, x.rows, stream), stream);
  }
}

CudaProducts::Entry& CudaProducts::entry_for(const ProductKey& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  return entries_.emplace(key, Entry{.layouts = library_.describe(key)}).first->second;
}

bool CudaProducts::accepts(const Entry& entry, std::span<const int64_t> rows,
                           const ProductAlgorithm& algorithm) const {
  return std::ranges::all_of(
      rows, [&](int64_t count) { return library_.accepts(entry.layouts, count, algorithm); });
}

const ProductAlgorithm& CudaProducts::algorithm_for(const ProductKey& key, Entry& entry,
                                                    int64_t rows, cudaStream_t stream) {
  const int64_t served = deterministic_ ? std::min(rows, kMaxTableRows) : rows;
  const auto of_bucket = entry.of_bucket.find(rows_bucket(served));
  if (of_bucket != entry.of_bucket.end()) return of_bucket->second;
  if (deterministic_) {
    if (rows <= entry.reference_rows) return *entry.reference;
    check_no_capture(stream);
    return reference_for(key, entry, std::max(rows, max_rows_));
  }
  const auto of_rows = entry.of_rows.find(rows);
  if (of_rows != entry.of_rows.end()) return of_rows->second;
  check_no_capture(stream);
  return choose(key, entry, rows);
}

std::vector<ProductAlgorithm> CudaProducts::proposed_for(const ProductKey& key, const Entry& entry,
                                                         int64_t bucket) const {
  auto proposed = library_.propose(key, entry.layouts, bucket, free_rule(key));
  // What is proposed for one number of rows need not serve the others.
  std::erase_if(proposed, [&](const ProductAlgorithm& algorithm) {
    return !accepts(entry, rows_to_check(bucket), algorithm);
  });
  return proposed;
}

const ProductAlgorithm& CudaProducts::choose(const ProductKey& key, Entry& entry, int64_t rows) {
  const int64_t bucket = rows_bucket(rows);
  const auto of_bucket = proposed_for(key, entry, bucket);
  if (!of_bucket.empty()) return entry.of_bucket[bucket] = of_bucket.front();
  const auto of_rows = library_.propose(key, entry.layouts, rows, free_rule(key));
  if (of_rows.empty()) throw_no_algorithm(key, rows);
  return entry.of_rows[rows] = of_rows.front();
}

std::vector<ProductAlgorithm> CudaProducts::fixed_for(const ProductKey& key, const Entry& entry,
                                                      int64_t proposed_rows,
                                                      std::span<const int64_t> rows,
                                                      AlgorithmRule rule) const {
  auto proposed = library_.propose(key, entry.layouts, proposed_rows, rule);
  std::erase_if(proposed, [&](const auto& algorithm) { return !accepts(entry, rows, algorithm); });
  return proposed;
}

const ProductAlgorithm& CudaProducts::reference_for(const ProductKey& key, Entry& entry,
                                                    int64_t max_rows) {
  if (entry.reference) {
    if (!accepts(entry, all_rows_to_check(max_rows), *entry.reference)) {
      throw_no_algorithm(key, max_rows);
    }
  } else {
    for (const AlgorithmRule rule : fixed_rules(key)) {
      const auto usable = fixed_for(key, entry, kReferenceRows, all_rows_to_check(max_rows), rule);
      if (!usable.empty()) entry.reference = usable.front();
      if (entry.reference) break;
    }
    if (!entry.reference) throw_no_algorithm(key, kReferenceRows);
  }
  entry.reference_rows = max_rows;
  return *entry.reference;
}

void CudaProducts::prepare(std::span<const InputProducts> inputs, const ProductBench& bench,
                           ProductCache& cache, double max_timing_ms) {
  std::map<ProductKey, Announced> announced;
  for (const InputProducts& input : inputs) {
    for (std::span<const Product> rest = input.products; !rest.empty() && input.x.rows > 0;) {
      const int64_t count = num_fusible(rest);
      const Product product = fuse(rest, count);
      rest = rest.subspan(static_cast<size_t>(count));
      Announced& same = announced[key_of(input.x, product)];
      same.weights.push_back(product.weight.data);
      same.rows = std::max(same.rows, input.x.rows);
    }
  }
  if (!deterministic_) {
    choose_fastest(announced, bench, cache, max_timing_ms);
    return;
  }
  choices_ = ProductChoices();
  choices_hash_ = 0;
  for (const auto& [key, products] : announced) choose_deterministic(key, products, bench);
}

void CudaProducts::choose_fastest(const std::map<ProductKey, Announced>& announced,
                                  const ProductBench& bench, ProductCache& cache,
                                  double max_timing_ms) {
  int64_t max_rows = 0;
  for (const auto& [key, products] : announced) max_rows = std::max(max_rows, products.rows);
  // Where time is short, a few sizes from small to large come first.
  std::vector<int64_t> buckets = buckets_up_to(max_rows);
  std::ranges::stable_partition(
      buckets, [](int64_t bucket) { return std::has_single_bit(static_cast<uint64_t>(bucket)); });
  ProductTiming timing(bench, max_timing_ms);
  for (const int64_t bucket : buckets) {
    for (const auto& [key, products] : announced) {
      if (bucket > rows_bucket(products.rows)) continue;
      Entry& entry = entry_for(key);
      const auto cached = cache.find(key, bucket);
      if (cached && accepts(entry, rows_to_check(bucket), *cached)) {
        entry.of_bucket[bucket] = *cached;
        continue;
      }
      std::vector<ProductAlgorithm> proposed = proposed_for(key, entry, bucket);
      if (proposed.empty()) continue;
      proposed.resize(std::min(proposed.size(), kMaxTimed));
      std::optional<size_t> fastest = 0;
      if (proposed.size() > 1 && timing.has_time()) {
        fastest = timing.fastest(key, entry.layouts, products.weights,
                                 std::min(bucket, products.rows), proposed);
        if (!fastest) continue;
        cache.add(key, bucket, proposed[*fastest]);
      }
      entry.of_bucket[bucket] = proposed[*fastest];
    }
  }
  cache.save();
}

void CudaProducts::choose_deterministic(const ProductKey& key, const Announced& announced,
                                        const ProductBench& bench) {
  Entry& entry = entry_for(key);
  const int64_t max_rows = announced.rows;
  // The buckets are the same whatever the run's own sizes, so that the hash is too.
  std::vector<int64_t> buckets = buckets_up_to(std::min(kMaxTableRows, kMaxElements / key.n - 1));
  std::erase_if(buckets, [&](int64_t bucket) { return bucket * key.n >= kMaxElements; });
  const std::vector<AlgorithmRule> rules = fixed_rules(key);
  using Proposals = std::vector<std::vector<ProductAlgorithm>>;  // of each bucket
  std::vector<Proposals> of_rule(rules.size());
  const auto proposals_of = [&](size_t rule) -> const Proposals& {
    if (!of_rule[rule].empty()) return of_rule[rule];
    for (const int64_t bucket : buckets) {
      std::vector<int64_t> rows = rows_to_check(bucket);
      if (bucket == kMaxTableRows && max_rows > bucket) rows.push_back(max_rows);
      of_rule[rule].push_back(fixed_for(key, entry, bucket, rows, rules[rule]));
    }
    return of_rule[rule];
  };

  std::vector<int64_t> max_rows_of;
  for (const int64_t bucket : buckets) {
    max_rows_of.push_back(bucket == kMaxTableRows ? max_rows : std::min(bucket, max_rows));
  }
  // The bits of a row are those that the reference computes, whatever the number of rows. So each
  // bucket's algorithm must compute these, or else the reference itself with as many rows. What the
  // library accepts may fail when it multiplies. Returns the number of buckets that fall back;
  // nullopt: some have none.
  const auto prove = [&](AlgorithmProof& proof, const ProductAlgorithm& reference,
                         size_t its_rule) -> std::optional<int64_t> {
    int64_t fallen_back = 0;
    for (size_t rule = 0; rule < rules.size() && proof.num_missing() > 0; ++rule) {
      const Proposals& proposed = proposals_of(rule);
      for (size_t turn = 0; turn < kMaxCompared; ++turn) {
        if (!proof.try_each([&](size_t i) {
              return turn < proposed[i].size() ? &proposed[i][turn] : nullptr;
            })) {
          return std::nullopt;
        }
      }
      if (rule != its_rule) continue;
      // The next rule's algorithms are slower than the reference.
      fallen_back = proof.num_missing();
      if (!proof.try_each([&](size_t) { return &reference; })) return std::nullopt;
      fallen_back -= proof.num_missing();
    }
    return proof.num_missing() == 0 ? std::optional(fallen_back) : std::nullopt;
  };

  for (size_t rule = 0; rule < rules.size(); ++rule) {
    for (const auto& reference :
         fixed_for(key, entry, kReferenceRows, all_rows_to_check(max_rows), rules[rule])) {
      AlgorithmProof proof(max_rows_of, [&](std::map<ProvenAlgorithm, bool>& are_equal) {
        return compare_bits(bench, key, entry.layouts, announced.weights.front(), reference,
                            are_equal);
      });
      const std::optional<int64_t> fallen_back = prove(proof, reference, rule);
      if (!fallen_back) continue;
      choices_->buckets += std::ssize(buckets);
      choices_->fallen_back += *fallen_back;
      for (size_t i = 0; i < buckets.size(); ++i) {
        entry.of_bucket[buckets[i]] = proof[i];
        choices_hash_ = hash_of(choices_hash_, key, buckets[i], proof[i]);
      }
      entry.reference = reference;
      entry.reference_rows = max_rows;
      return;
    }
  }
  throw Error(fmt::format(
      "cuBLAS has no algorithm whose bits are the same for all numbers of rows, up to {}, for a "
      "product of {} {} by {}: --deterministic needs one",
      max_rows, key.k, name_of(key.in), key.n));
}

}  // namespace pagedinfer
