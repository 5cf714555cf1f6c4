// Random workloads on the real backends: whatever a request runs beside, however its prompt
// is cut and wherever its blocks lie, it gets the tokens and the logits, bit for bit, that it gets
// alone. The answers to compare with come from the fastest instruction set on one thread or, of a
// GPU, from the same GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "tests/support/cuda_support.h"
#include "tests/support/rig.h"

using namespace pagedinfer;

namespace {

struct Expected {
  std::map<SampleId, std::vector<TokenId>> answers;
  LogitRows logit_rows;
};

Expected one_at_a_time(Rig& rig, const Workload& work) {
  Expected expected;
  const auto stops = [](const Rig::Tokens& generated) { return generated.back() == kTinyStop; };
  rig.start();
  for (const auto& [step, request] : work.arrivals) {
    const bool searches = request.sampling.beams.width > 1;
    for (int sample = 0; sample < (searches ? 0 : request.num_samples); ++sample) {
      expected.answers[{request.random_key, sample}] =
          rig.alone(request, work.limits.max_model_len, stops, {}, sample);
    }
    if (!searches) continue;
    int beam = 0;
    for (FinishedBeam& found : rig.search_alone(request, work.limits.max_model_len, kTinyStop)) {
      expected.answers[{request.random_key, beam++}] = std::move(found.tokens);
    }
  }
  REQUIRE(rig.num_bad_rows() == 0);
  expected.logit_rows = rig.logit_rows();
  return expected;
}

void run(Rig& rig, KvPool& pool, const Workload& work, const Expected& expected, Overlap overlap,
         Counters& counters) {
  REQUIRE(pool.stats().positions_total <= Rig::kNumPositions);
  rig.start();
  const Device device = [&](const StepPlan& plan, PlanSequences sequences, const Batch& batch) {
    return rig.compute(plan, sequences, batch);
  };
  const long surplus_before = counters.of["surplus rows"];
  const Outcome outcome =
      drive(pool, work.limits, work.arrivals, kTinyStop, device, counters, overlap);
  REQUIRE(rig.num_bad_rows() == 0);
  size_t num_answers = 0;
  for (const auto& [id, tokens] : expected.answers) {
    if (outcome.refused.contains(id.first)) continue;
    INFO("request " << id.first << ", sample " << id.second);
    REQUIRE(outcome.answers.at(id) == tokens);
    ++num_answers;
  }
  REQUIRE(outcome.answers.size() == num_answers);
  std::set<uint64_t> refused;  // by random key
  for (const auto& [step, request] : work.arrivals) {
    if (outcome.refused.contains(request.random_key)) refused.insert(request.random_key);
  }
  const LogitRows& rows = rig.logit_rows();
  size_t num_rows = 0;
  for (const auto& [place, hash] : expected.logit_rows) {
    if (refused.contains(place.key)) continue;
    INFO("position " << place.position);
    REQUIRE(rows.at(place) == hash);
    ++num_rows;
  }
  REQUIRE(rows.size() == num_rows + counters.of["surplus rows"] - surplus_before);
}

// Models on one instruction set, or on a GPU, made when they are first asked for.
class Rigs {
 public:
  Rigs(CpuIsa isa, DType compute, DType cache_type, Quantization quantize)
      : isa_(isa), compute_(compute), cache_type_(cache_type), quantize_(quantize) {
    open(tiny_expert_shapes());
    open(tiny_shapes());
  }
  // On a GPU.
  Rigs(DType compute, const std::vector<TinyModelOptions>& shapes)
      : on_gpu_(true), compute_(compute), cache_type_(compute) {
    open(shapes);
  }

  int num_shapes() const { return static_cast<int>(models_.size()); }
  Rig& reference(int shape) { return get(shape, available_isas().back(), 1, false); }
  Rig& tested(int shape, int num_threads) { return get(shape, isa_, num_threads, true); }

  int64_t num_replayed() const {  // of a GPU's steps
    int64_t steps = 0;
    for (const auto& [key, rig] : rigs_) steps += rig->graph_counts().replayed;
    return steps;
  }

 private:
  void open(const std::vector<TinyModelOptions>& shapes) {
    for (const TinyModelOptions& shape : shapes) {
      files_.push_back(std::make_unique<TinyModel>(shape));
      models_.push_back(open_model(files_.back()->dir()));
    }
  }

  Rig& get(int shape, CpuIsa isa, int num_threads, bool graphs) {
    if (on_gpu_) isa = CpuIsa::kPortable, num_threads = 1;
    std::unique_ptr<Rig>& rig = rigs_[{shape, isa, num_threads, on_gpu_ && graphs}];
    if (rig) return *rig;
    const OpenedModel& model = models_.at(static_cast<size_t>(shape));
    if (on_gpu_) {
      const CudaOptions options = {.compute = compute_, .deterministic = true, .graphs = graphs};
      rig = std::make_unique<Rig>(model, options);
    } else {
      const CpuOptions options = {.isa = isa,
                                  .num_threads = num_threads,
                                  .compute = compute_,
                                  .packs_weights = num_threads > 1 && can_pack(compute_)};
      rig = std::make_unique<Rig>(model, options, cache_type_, quantize_);
    }
    return *rig;
  }

  bool on_gpu_ = false;
  CpuIsa isa_ = CpuIsa::kPortable;
  DType compute_, cache_type_;
  Quantization quantize_ = Quantization::kNone;
  std::vector<std::unique_ptr<TinyModel>> files_;
  std::vector<OpenedModel> models_;
  std::map<std::tuple<int, CpuIsa, int, bool>, std::unique_ptr<Rig>> rigs_;
};

// With heads that a GPU's tensor cores can and cannot take.
std::vector<TinyModelOptions> shapes_for_gpu() {
  std::vector<TinyModelOptions> shapes = tiny_shapes();
  for (const int head_dim : {64, 80, 96, 128, 256}) {
    TinyModelOptions shape = {.seed = 11, .max_positions = 1024, .dtype = DType::kBF16};
    shape.head_dim = head_dim;
    if (head_dim == 256) shape.family = tiny_gemma3(40, 2);
    shapes.insert(shapes.begin(), shape);
  }
  return shapes;
}

// `has_large`: the last model is a large one, for few of the trials.
void compare(Rigs& rigs, const char* name, DType cache_type, int seed, bool has_large,
             int num_trials) {
  Counters counters;
  for (int trial = 0; trial < num_trials; ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(trial + seed);
    Workload work = random_workload(random, kTinyVocab);
    vary_sampling(work.arrivals, random);
    for (Arrival& arrival : work.arrivals) {
      if (random.one_in(6)) arrival.request.num_samples = random.pick(2, 4);
      if (!random.one_in(9)) continue;
      arrival.request.num_samples = 1;
      arrival.request.sampling.beams = random_beams(random, 4);
    }
    if (random.one_in(8)) lengthen_one(work, random);
    const bool large = has_large && trial % 10 == 0;
    const int shape = large ? rigs.num_shapes() - 1 : random.pick(0, rigs.num_shapes() - 2);
    const int num_threads = !large && random.one_in(2) ? 1 : random.pick(2, 4);
    const Expected expected = one_at_a_time(rigs.reference(shape), work);
    Rig& rig = rigs.tested(shape, num_threads);
    counters.of["several threads"] += 3 * (num_threads > 1);

    const auto overlap = [&] { return random.one_in(2) ? Overlap::kYes : Overlap::kNo; };
    for (const bool tight : {false, true}) {
      if (tight) work.num_blocks = tight_blocks(work);
      PagedPool blocks(work.num_blocks, work.block_size);
      scramble(blocks, random);
      run(rig, blocks, work, expected, overlap(), counters);
    }
    const int max_model_len = work.limits.max_model_len;
    ContiguousPool reservations(max_model_len * work.num_reservations, max_model_len);
    scramble(reservations, random);
    run(rig, reservations, work, expected, overlap(), counters);
  }
  std::printf("%s, %s: every run equal to one request at a time\n", name, name_of(cache_type));
  if (num_trials < 10) return;  // what is rare need not have happened
  counters.print_and_require({"runs", "several threads", "steps", "tokens", "preemptions",
                              "readmissions", "resumed chunks", "same-step admissions",
                              "mixed steps", "partly filled blocks", "overlapping steps",
                              "surplus rows", "forks", "copies", "searches"});
}

void compare(CpuIsa isa, DType compute, int num_trials, std::optional<DType> cache_type = {},
             Quantization quantize = Quantization::kNone) {
  if (std::ranges::count(available_isas(), isa) == 0) {
    MESSAGE("SKIPPED: this processor has no " << std::string(name_of(isa)));
    return;
  }
  const DType type = cache_type.value_or(compute);
  Rigs rigs(isa, compute, type, quantize);
  compare(rigs, name_of(isa), type, 1000 * static_cast<int>(type) + 10000 * static_cast<int>(isa),
          isa != CpuIsa::kPortable, num_trials);
}

// Three runs each: together more than a thousand wherever there is AVX2.
constexpr int kTrials = 200, kTrialsCache = 100, kTrialsPortable = 20, kTrialsGpu = 40;

// Sanitizers leave the kernels alone, and the random runs of a fake model give them all else.
constexpr int few(int num_trials) { return kSanitized ? std::max(2, num_trials / 64) : num_trials; }

}  // namespace

TEST_CASE("any company gives the bits of running alone: avx2, float32") {
  compare(CpuIsa::kAvx2, DType::kF32, few(kTrials));
}
TEST_CASE("any company gives the bits of running alone: avx2, bfloat16") {
  compare(CpuIsa::kAvx2, DType::kBF16, few(kTrials));
}
TEST_CASE("any company gives the bits of running alone: avx512, float32") {
  compare(CpuIsa::kAvx512, DType::kF32, few(kTrials));
}
TEST_CASE("any company gives the bits of running alone: avx512, bfloat16") {
  compare(CpuIsa::kAvx512, DType::kBF16, few(kTrials));
}
TEST_CASE("any company gives the bits of running alone: amx, float32") {
  compare(CpuIsa::kAmx, DType::kF32, few(kTrials));
}
TEST_CASE("any company gives the bits of running alone: amx, bfloat16") {
  compare(CpuIsa::kAmx, DType::kBF16, few(kTrials));
}
TEST_CASE("any company gives the bits of running alone: portable, float32") {
  compare(CpuIsa::kPortable, DType::kF32, few(kTrialsPortable));
}
TEST_CASE("any company gives the bits of running alone: portable, bfloat16") {
  compare(CpuIsa::kPortable, DType::kBF16, few(kTrialsPortable));
}
TEST_CASE("any company gives the bits of running alone: avx2, cache in int8") {
  compare(CpuIsa::kAvx2, DType::kBF16, few(kTrialsCache), DType::kI8);
}
TEST_CASE("any company gives the bits of running alone: avx512, cache in int8") {
  compare(CpuIsa::kAvx512, DType::kBF16, few(kTrialsCache), DType::kI8);
}
TEST_CASE("any company gives the bits of running alone: amx, cache in int8") {
  compare(CpuIsa::kAmx, DType::kBF16, few(kTrialsCache), DType::kI8);
}
TEST_CASE("any company gives the bits of running alone: portable, cache in int8") {
  compare(CpuIsa::kPortable, DType::kF32, few(kTrialsPortable), DType::kI8);
}
TEST_CASE("any company gives the bits of running alone: avx2, cache in float16") {
  compare(CpuIsa::kAvx2, DType::kF32, few(kTrialsCache), DType::kF16);
}
TEST_CASE("any company gives the bits of running alone: avx512, cache in float16") {
  compare(CpuIsa::kAvx512, DType::kF32, few(kTrialsCache), DType::kF16);
}
TEST_CASE("any company gives the bits of running alone: portable, cache in float16") {
  compare(CpuIsa::kPortable, DType::kF32, few(kTrialsPortable), DType::kF16);
}
TEST_CASE("any company gives the bits of running alone: avx2, weights in int8") {
  compare(CpuIsa::kAvx2, DType::kBF16, few(kTrialsCache), {}, Quantization::kInt8);
}
TEST_CASE("any company gives the bits of running alone: avx512, weights in int8") {
  compare(CpuIsa::kAvx512, DType::kBF16, few(kTrialsCache), {}, Quantization::kInt8);
}
TEST_CASE("any company gives the bits of running alone: amx, weights in int8") {
  compare(CpuIsa::kAmx, DType::kBF16, few(kTrialsCache), {}, Quantization::kInt8);
}
TEST_CASE("any company gives the bits of running alone: portable, weights and cache in int8") {
  compare(CpuIsa::kPortable, DType::kF32, few(kTrialsPortable), DType::kI8, Quantization::kInt8);
}
TEST_CASE("any company gives the bits of running alone: avx2, weights in int4") {
  compare(CpuIsa::kAvx2, DType::kBF16, few(kTrialsCache), {}, Quantization::kInt4);
}
TEST_CASE("any company gives the bits of running alone: avx512, weights in int4") {
  compare(CpuIsa::kAvx512, DType::kBF16, few(kTrialsCache), {}, Quantization::kInt4);
}
TEST_CASE("any company gives the bits of running alone: amx, weights in int4") {
  compare(CpuIsa::kAmx, DType::kBF16, few(kTrialsCache), {}, Quantization::kInt4);
}
TEST_CASE("on a GPU: with --deterministic any company gives the bits of running alone") {
  if (skips_without_gpu()) return;
  const int num_trials = gpu_trials(few(kTrialsGpu));
  for (const DType compute : {DType::kF32, DType::kBF16, DType::kF16}) {
    INFO(name_of(compute));
    Rigs rigs(compute, shapes_for_gpu());
    compare(rigs, "gpu", compute, 50000 + 1000 * static_cast<int>(compute), num_trials >= 10,
            num_trials);
    CHECK(rigs.num_replayed() > 0);
  }
}
TEST_CASE("on a GPU: with --deterministic any company gives experts the bits of running alone") {
  if (skips_without_gpu()) return;
  std::vector<TinyModelOptions> shapes = tiny_expert_shapes();
  shapes.push_back(shapes.front());  // no trial has the last one
  Rigs rigs(DType::kBF16, shapes);
  compare(rigs, "gpu, experts", DType::kBF16, 60000, false, gpu_trials(few(kTrialsGpu)));
  CHECK(rigs.num_replayed() > 0);
}
