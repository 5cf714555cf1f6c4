#include "tests/support/rig.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/random_key.h"
#include "model/decoder.h"
#include "model/weights.h"
#include "ops/cpu/kernels.h"
#include "tests/support/bits_hash.h"
#include "tests/support/cuda_support.h"
#include "tests/support/kv_poison.h"

namespace pagedinfer {
namespace {

uint64_t hash_bits(const float* row, int64_t count) {
  BitsHash hash;
  for (int64_t i = 0; i < count; ++i) hash.add(std::bit_cast<uint32_t>(row[i]));
  return hash.value;
}

}  // namespace

Rig::Rig(const OpenedModel& m, const CpuOptions& options, std::optional<DType> cache_type,
         Quantization quantize)
    : Rig(m, make_cpu_ops(options), nullptr, options.compute, cache_type.value_or(options.compute),
          quantize) {}

Rig::Rig(const OpenedModel& m, const CudaOptions& options)
    : Rig(m, nullptr, make_gpu(m.spec, options).release(), options.compute, options.compute,
          Quantization::kNone) {
  // The device's products are compared for as many rows as its steps may have. On the emulated one
  // that takes long, and fewer rows choose the same algorithms.
  if (options.deterministic) {
    const bool is_emulated = backend_->description().find("emulated") != std::string::npos;
    const StepBounds bounds = {.tokens = is_emulated ? 130 : 2048,
                               .sequences = is_emulated ? 20 : 256};
    backend_->arithmetic().prepare(products_of_step(m.spec, weights, options.compute, bounds));
  }
}

Rig::Rig(const OpenedModel& m, std::unique_ptr<Ops> cpu, CudaOps* gpu, DType compute,
         DType cache_type, Quantization quantize)
    : model(m),
      backend_(gpu != nullptr ? std::unique_ptr<Ops>(gpu) : std::move(cpu)),
      gpu_(gpu),
      ops(backend_->steps(), backend_->arithmetic()),
      weights(load_weights(m, compute, backend_->memory(), quantize)),
      is_written_(kNumPositions, true) {
  for (size_t i = 0; i < m.spec.layers.size(); ++i) {
    cache.push_back(backend_->memory().allocate_kv(cache_type, m.spec.kv_heads, m.spec.head_dim,
                                                   kNumPositions));
  }
  ops.on_stage = [this](const Batch& batch) { staged_ = batch; };
  // Not before: a copy may read where the step writes.
  ops.on_run = [this] {
    for (const KvCopy& copy : staged_.copies) {
      for (int i = 0; i < copy.count; ++i) is_written_[copy.destination + i] = true;
    }
    poison_unwritten(staged_);
  };
  ops.on_sample = [this](Tensor logits, std::span<const SampleRow> rows) { note(logits, rows); };
}

void Rig::start() {
  for (int64_t slot = 0; slot < kNumPositions; ++slot) poison(slot);
  logit_rows_.clear();
  num_bad_rows_ = 0;
}

void Rig::poison(int64_t slot) {
  if (!is_written_[slot]) return;
  is_written_[slot] = false;
  for (const KvLayer& layer : cache) {
    if (gpu_ != nullptr) {
      poison_position(*gpu_, layer, slot);
    } else {
      poison_position(layer, slot);
    }
  }
}

// From its first query on, the blocks of a sequence hold data of earlier owners.
void Rig::poison_unwritten(const Batch& batch) {
  for (int seq = 0; seq < batch.num_seqs(); ++seq) {
    const int32_t* blocks = &batch.block_table[static_cast<size_t>(seq) * batch.max_blocks];
    const int num_blocks = (batch.context_lens[seq] - 1) / batch.block_size + 1;
    const int first = batch.query_starts[seq];
    const int start = batch.positions[first] + (batch.slot_mapping[first] < 0);
    for (int p = start; p < num_blocks * batch.block_size; ++p) {
      poison(blocks[p / batch.block_size] + p % batch.block_size);
    }
  }
  for (const int32_t slot : batch.slot_mapping) {
    if (slot >= 0) is_written_[slot] = true;
  }
}

void Rig::note(Tensor logits, std::span<const SampleRow> rows) {
  std::vector<float> copy;
  if (gpu_ != nullptr) {
    copy.resize(static_cast<size_t>(logits.rows * logits.cols));
    gpu_->read(logits, copy.data());
    logits = {copy.data(), DType::kF32, logits.rows, logits.cols, logits.cols};
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* row = logits.row<float>(rows[i].logits_row);
    const auto is_finite = [](float x) { return std::isfinite(x); };
    num_bad_rows_ += !std::all_of(row, row + logits.cols, is_finite);
    logit_rows_[{rows[i].key, rows[i].sample, rows[i].position}] = hash_bits(row, logits.cols);
  }
}

Tensor Rig::queue_step(const BatchView& view) {
  return ops.run(view,
                 [&] { return forward(model.spec, weights, cache, view, ops, ops.arithmetic()); });
}

std::vector<DrawnToken> Rig::compute(const StepPlan& plan, PlanSequences sequences,
                                     const Batch& batch) {
  const BatchView view = ops.stage(batch);
  if (!view.copies.empty()) ops.copy_kv(view, cache);
  const Tensor logits = queue_step(view);
  std::vector<SampleRow> rows;
  for (const Draw& draw : plan.draws) {
    const Sequence& seq = *sequences[draw.chunk];
    if (draw.scores) {
      rows.push_back({.params = &seq.request->sampling,
                      .allowed = std::span(seq.request->prompt).subspan(draw.position, 1),
                      .logits_row = draw.logits_row,
                      .num_log_probs = seq.request->num_prompt_candidates()});
      continue;
    }
    const auto before = std::span(seq.tokens).first(draw.position);
    rows.push_back({.params = &seq.request->sampling,
                    .prompt = seq.request->prompt,
                    .generated = before.subspan(seq.num_prompt()),
                    .key = seq.request->random_key,
                    .sample = static_cast<uint32_t>(draw.sample),
                    .position = static_cast<uint32_t>(draw.position),
                    .logits_row = draw.logits_row});
    const int width = seq.request->sampling.beams.width;
    if (width > 1) rows.back().num_log_probs = BeamSearch::num_candidates(width, 1);
  }
  std::vector<DrawnToken> drawn(rows.size());
  if (!rows.empty()) ops.collect(ops.sample(logits, rows), drawn);
  return drawn;
}

// The row of logits behind `tokens`, the last ones of a sequence of `end` tokens, which has the
// cache to itself.
Tensor Rig::compute_alone(const Tokens& tokens, int end) {
  const auto count = static_cast<int>(tokens.size());
  Batch batch = {.tokens = tokens,
                 .positions = tokens,
                 .query_starts = {0, count},
                 .context_lens = {end},
                 .block_table = {0},
                 .logit_tokens = {count - 1},
                 .max_blocks = 1,
                 .block_size = static_cast<int>(kNumPositions)};
  std::iota(batch.positions.begin(), batch.positions.end(), end - count);
  batch.slot_mapping = batch.positions;
  return queue_step(ops.stage(batch));
}

std::vector<FinishedBeam> Rig::search_alone(const Request& request, int max_model_len,
                                            TokenId stop) {
  const auto num_prompt = static_cast<int>(request.prompt.size());
  const int most = std::min(max_model_len, num_prompt + request.sampling.max_tokens);
  const BeamSettings& settings = request.sampling.beams;
  BeamSearch search(settings, most - num_prompt);
  for (int end = num_prompt; !search.is_done(); ++end) {
    std::vector<BeamSearch::Candidates> offered;
    for (const Beam& beam : search.running()) {
      Tokens known = request.prompt;
      known.insert(known.end(), beam.tokens.begin(), beam.tokens.end());
      const Tensor logits = compute_alone(known, end);
      const SampleRow row = {.params = &request.sampling,
                             .prompt = request.prompt,
                             .generated = beam.tokens,
                             .key = request.random_key,
                             .sample = static_cast<uint32_t>(offered.size()),
                             .position = static_cast<uint32_t>(end),
                             .num_log_probs = BeamSearch::num_candidates(settings.width, 1)};
      DrawnToken drawn;
      ops.collect(ops.sample(logits, {&row, 1}), {&drawn, 1});
      offered.push_back(drawn.candidates);
    }
    search.step(offered, [&](const Beam&, TokenId token) {
      return token == stop ? TokenRole::kEnds : TokenRole::kGoesOn;
    });
  }
  return search.finished();
}

std::vector<TokenCandidate> Rig::behind(const Tokens& known) {
  const Tensor logits = compute_alone(known, static_cast<int>(known.size()));
  const SamplingParams greedy;
  const SampleRow row = {.params = &greedy, .num_log_probs = model.spec.vocab};
  DrawnToken drawn;
  ops.collect(ops.sample(logits, {&row, 1}), {&drawn, 1});
  return drawn.candidates;
}

Rig::Tokens Rig::alone(const Request& request, int max_model_len,
                       const std::function<bool(const Tokens&)>& is_last,
                       const std::function<Tokens(const Tokens&)>& banned, int sample,
                       std::vector<DrawnToken>* drawn) {
  const auto num_prompt = static_cast<int>(request.prompt.size());
  const int most = std::min(max_model_len, num_prompt + request.sampling.max_tokens);
  Tokens pending = request.prompt, generated;
  for (int end = num_prompt; end < most; ++end) {
    const Tensor logits = compute_alone(pending, end);
    const auto& forced = model.spec.forced_end;
    const bool is_forced = forced && !request.sampling.ignore_eos && end + 1 == most;
    const Tokens these = is_forced ? Tokens{*forced} : Tokens{};
    const Tokens not_these = banned && !is_forced ? banned(generated) : Tokens{};
    const SampleRow row = {.params = &request.sampling,
                           .prompt = request.prompt,
                           .generated = generated,
                           .allowed = these,
                           .banned = not_these,
                           .key = request.random_key,
                           .sample = static_cast<uint32_t>(sample),
                           .position = static_cast<uint32_t>(end),
                           .num_log_probs = request.num_candidates()};
    DrawnToken next;
    ops.collect(ops.sample(logits, {&row, 1}), {&next, 1});
    generated.push_back(next.token);
    if (drawn != nullptr) drawn->push_back(next);
    if (is_last(generated)) break;
    pending = {next.token};
  }
  return generated;
}

std::vector<TinyModelOptions> tiny_expert_shapes() {
  std::vector<TinyModelOptions> shapes;
  for (const TinyFamily& family : tiny_expert_families(13, 3)) {
    shapes.push_back({.seed = static_cast<uint32_t>(50 + shapes.size()),
                      .hidden = 24,
                      .layers = 3,
                      .heads = 3,
                      .kv_heads = 1,
                      .intermediate = 22,
                      .vocab = static_cast<int>(43 + 2 * shapes.size()),
                      .max_positions = 1024,
                      .dtype = DType::kBF16,
                      .tied = shapes.size() % 2 == 0,
                      .family = family});
  }
  return shapes;
}

std::vector<TinyModelOptions> tiny_shapes() {
  std::vector<TinyModelOptions> shapes;
  for (const TinyFamily& family : tiny_newer_families(13, 3)) {
    shapes.push_back({.seed = static_cast<uint32_t>(20 + shapes.size()),
                      .hidden = 27,
                      .layers = 3,
                      .heads = 3,
                      .kv_heads = 1,
                      .intermediate = 35,
                      .vocab = static_cast<int>(41 + 2 * shapes.size()),
                      .max_positions = 1024,
                      .dtype = shapes.size() % 2 == 0 ? DType::kBF16 : DType::kF32,
                      .tied = shapes.size() % 3 == 0,
                      .family = family});
  }
  const std::vector<TinyModelOptions> others = {
      {.seed = 1, .vocab = 61, .max_positions = 1024},
      {.seed = 2,
       .hidden = 16,
       .heads = 3,
       .kv_heads = 1,
       .head_dim = 6,
       .intermediate = 19,
       .vocab = kTinyVocab,
       .max_positions = 1024,
       .dtype = DType::kBF16,
       .tied = true},
      {.seed = 3,
       .hidden = 33,
       .heads = 2,
       .kv_heads = 2,
       .head_dim = 10,
       .intermediate = 70,
       .vocab = 67,
       .max_positions = 1024,
       .dtype = DType::kF16,
       .llama3_rope = true},
      {.seed = 5,
       .hidden = 20,
       .layers = 3,
       .heads = 4,
       .kv_heads = 1,
       .head_dim = 12,
       .intermediate = 33,
       .vocab = 53,
       .max_positions = 1024,
       .dtype = DType::kBF16,
       .tied = true,
       .family = tiny_qwen3()},
      {.seed = 6,
       .hidden = 28,
       .layers = 3,
       .kv_heads = 2,
       .head_dim = 10,
       .intermediate = 39,
       .vocab = 47,
       .max_positions = 1024,
       .dtype = DType::kBF16,
       .tied = true,
       .family = tiny_gemma3(13, 3)},
      {.seed = 7, .vocab = 40, .max_positions = 1024, .family = tiny_mistral(260)},
      {.seed = 8,
       .hidden = 24,
       .heads = 3,
       .kv_heads = 3,
       .head_dim = 8,
       .vocab = 43,
       .max_positions = 1024,
       .dtype = DType::kBF16,
       .family = tiny_qwen2(1, 2)},
      {.seed = 9,
       .hidden = 26,
       .layers = 3,
       .heads = 3,
       .kv_heads = 1,
       .head_dim = 16,
       .vocab = 59,
       .max_positions = 1024,
       .family = tiny_ministral(13, 3)},
      {.seed = 4,
       .hidden = 120,
       .heads = 4,
       .head_dim = 32,
       .intermediate = 330,
       .vocab = 261,
       .max_positions = 1024,
       .dtype = DType::kBF16},
  };
  shapes.insert(shapes.end(), others.begin(), others.end());
  return shapes;
}

void vary_sampling(std::vector<Arrival>& arrivals, WorkloadRandom& random) {
  for (auto& [step, request] : arrivals) {
    SamplingParams& params = request.sampling;
    const auto fraction = [&] { return static_cast<float>(random.pick(1, 99)) / 100.0f; };
    params.seed = static_cast<uint64_t>(random.pick(0, 3));
    request.random_key =
        random_key(params.seed, std::to_string(request.random_key), request.prompt);
    if (random.one_in(3)) {
      params.repetition_penalty = 0.5f + 2 * fraction();
      params.presence_penalty = fraction();
      params.frequency_penalty = fraction();
    }
    if (random.one_in(5)) params.logit_bias = {{random.pick(0, kTinyVocab - 1), 5 * fraction()}};
    if (random.one_in(3)) continue;  // greedy
    params.temperature = 3 * fraction();
    if (random.one_in(3)) params.top_k = random.pick(1, 20);
    if (random.one_in(3)) params.top_p = fraction();
    if (random.one_in(3)) params.min_p = fraction() / 2;
  }
}

void lengthen_one(Workload& work, WorkloadRandom& random) {
  const int last = static_cast<int>(work.arrivals.size()) - 1;
  Request& request = work.arrivals[random.pick(0, last)].request;
  const int more = random.pick(kSegmentKeys - 40, 2 * kSegmentKeys + 20);
  const std::vector<TokenId> tokens = random.tokens(more, kTinyVocab);
  request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.end());
  work.limits.max_model_len += more;
  if (!work.limits.chunked_prefill) work.limits.max_step_tokens += more;
  work.num_blocks += (more + work.block_size - 1) / work.block_size;
  work.num_reservations = std::min(work.num_reservations, 4);
}

}  // namespace pagedinfer
