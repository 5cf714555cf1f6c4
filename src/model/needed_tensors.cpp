#include "model/needed_tensors.h"

#include "model/decoder.h"

namespace pagedinfer {
namespace {

using Visit = std::function<void(const NeededTensor&)>;

// Matrices of the same name are the rows of one tensor, in this order.
void visit_matrices(std::initializer_list<NeededTensor> matrices, const Visit& visit) {
  for (const NeededTensor& matrix : matrices) {
    NeededTensor part = matrix;
    part.stored_rows = 0;
    part.together = matrices;
    for (const NeededTensor& other : matrices) {
      if (other.name != part.name) continue;
      if (&other < &matrix) part.first_row += other.rows;
      part.stored_rows += other.rows;
    }
    visit(part);
  }
}

// The experts of a checkpoint that has a tensor for each of their matrices.
void visit_each_expert(const ModelSpec& spec, const LayerNames& n, LayerWeights& w,
                       const Visit& of_expert) {
  const int64_t hidden = spec.hidden, width = spec.experts.width;
  for (int e = 0; e < spec.experts.count; ++e) {
    const ExpertNames& names = n.experts[static_cast<size_t>(e)];
    Expert& expert = w.experts[static_cast<size_t>(e)];
    visit_matrices({{names.gate, expert.gate, width, hidden}, {names.up, expert.up, width, hidden}},
                   of_expert);
    of_expert({names.down, expert.down, hidden, width});
    if (!spec.experts.biases) continue;
    of_expert({names.gate_bias, expert.gate_bias, 1, width, TensorKind::kBias});
    of_expert({names.up_bias, expert.up_bias, 1, width, TensorKind::kBias});
    of_expert({names.down_bias, expert.down_bias, 1, hidden, TensorKind::kBias});
  }
}

// Those of all other ways.
void visit_stacked_experts(const ModelSpec& spec, ExpertStorage storage, const LayerNames& n,
                           LayerWeights& w, const Visit& visit) {
  const int64_t hidden = spec.hidden, width = spec.experts.width, count = spec.experts.count;
  const ExpertNames& names = n.experts.front();
  const bool alternate = storage == ExpertStorage::kInterleavedColumns;
  const TurnedRows gate = {2 * width, 0, alternate ? 2 : 1};
  const TurnedRows up = {2 * width, alternate ? 1 : width, gate.step};
  for (int64_t e = 0; e < count; ++e) {
    Expert& expert = w.experts[static_cast<size_t>(e)];
    const auto part = [&](const std::string& name, Tensor& to, int64_t rows, int64_t cols,
                          const TurnedRows& turned) {
      NeededTensor needed = {.name = name, .destination = to, .rows = rows, .cols = cols};
      needed.stacked = count;
      if (storage == ExpertStorage::kStackedRows) {
        needed.stored_rows = count * turned.stored_cols;
        needed.first_row = e * turned.stored_cols + turned.first;
      } else {
        needed.stored_rows = count * cols;
        needed.first_row = e * cols;
        needed.turned = turned;
      }
      visit(needed);
    };
    part(names.gate, expert.gate, width, hidden, gate);
    part(names.up, expert.up, width, hidden, up);
    part(names.down, expert.down, hidden, width, {hidden});
    if (!spec.experts.biases) continue;
    const auto bias = [&](const std::string& name, Tensor& to, int64_t size,
                          const TurnedRows& turned) {
      visit({.name = name,
             .destination = to,
             .rows = 1,
             .cols = size,
             .kind = TensorKind::kBias,
             .first_row = e,
             .stored_rows = count,
             .turned = turned});
    };
    bias(names.gate_bias, expert.gate_bias, width, gate);
    bias(names.up_bias, expert.up_bias, width, up);
    bias(names.down_bias, expert.down_bias, hidden, {hidden});
  }
}

// The router and the experts of a layer.
void visit_experts(const ModelSpec& spec, ExpertStorage storage, const LayerNames& n,
                   LayerWeights& w, const Visit& visit) {
  const Visit of_expert = [&](NeededTensor needed) {
    needed.is_expert = true;
    visit(needed);
  };
  const ExpertsSpec& experts = spec.experts;
  const int64_t hidden = spec.hidden, shared = experts.shared_width;
  w.experts.resize(static_cast<size_t>(experts.count + (shared > 0 ? 1 : 0)));
  visit({n.router, w.router, experts.count, hidden, TensorKind::kRouter});
  if (experts.router_bias) {
    visit({n.router_bias, w.router_bias, 1, experts.count, TensorKind::kFloatBias});
  }
  if (storage == ExpertStorage::kEach) {
    visit_each_expert(spec, n, w, of_expert);
  } else {
    visit_stacked_experts(spec, storage, n, w, of_expert);
  }
  if (shared == 0) return;
  Expert& last = w.experts.back();
  visit_matrices(
      {{n.shared.gate, last.gate, shared, hidden}, {n.shared.up, last.up, shared, hidden}},
      of_expert);
  of_expert({n.shared.down, last.down, hidden, shared});
  if (experts.gates_shared) {
    visit({n.shared_gate, w.shared_gate, 1, hidden, TensorKind::kRouter});
  }
}

template <class Has>
std::vector<Checkpoint::Declared> tensors_of(const ModelSpec& spec, const TensorNames& names,
                                             const Has& has) {
  std::vector<Checkpoint::Declared> all;
  Weights unused;
  for_each_tensor(spec, names, unused, [&](const NeededTensor& needed) {
    if (!needed.is_first() || !has(needed)) return;
    all.push_back({needed.name, needed.stored_rows, needed.stored_cols(), needed.stacked});
  });
  return all;
}

}  // namespace

void for_each_tensor(const ModelSpec& spec, const TensorNames& names, Weights& weights,
                     const Visit& visit) {
  const int64_t hidden = spec.hidden, q_dim = int64_t{spec.heads} * spec.head_dim,
                kv_dim = int64_t{spec.kv_heads} * spec.head_dim;

  visit({names.embedding, weights.embedding, spec.vocab, hidden, TensorKind::kEmbedding});
  weights.layers.resize(spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerNames& n = names.layers[i];
    LayerWeights& w = weights.layers[i];
    const auto norm = [&](const std::string& name, Tensor& destination, int64_t cols) {
      visit({name, destination, 1, cols, TensorKind::kNorm});
    };
    const int rope = spec.layers[i].rope;
    const auto rotated = [&](NeededTensor needed) {
      if (spec.pair_rows == PairRows::kApart) return needed;
      if (rope != kNoRope) {
        needed.pairs = {spec.head_dim, std::ssize(spec.ropes[rope].inv_freq)};
      } else if (spec.pair_rows == PairRows::kNeighboursInFile) {
        needed.pairs = {spec.head_dim, spec.head_dim / 2};  // heads of all layers are turned there
      }
      return needed;
    };
    if (spec.norms_inputs) norm(n.attention_norm, w.attention_norm, hidden);
    visit_matrices({rotated({n.q, w.q, q_dim, hidden}),
                    rotated({n.k, w.k, kv_dim, hidden}),
                    {n.v, w.v, kv_dim, hidden}},
                   visit);
    if (spec.qkv_bias) {
      visit(rotated({n.q_bias, w.q_bias, 1, q_dim, TensorKind::kBias}));
      visit(rotated({n.k_bias, w.k_bias, 1, kv_dim, TensorKind::kBias}));
      visit({n.v_bias, w.v_bias, 1, kv_dim, TensorKind::kBias});
    }
    if (spec.qk_norm != QkNorm::kNone) {
      const bool by_head = spec.qk_norm == QkNorm::kHeads;
      norm(n.q_norm, w.q_norm, by_head ? spec.head_dim : q_dim);
      norm(n.k_norm, w.k_norm, by_head ? spec.head_dim : kv_dim);
    }
    if (spec.has_sinks) visit({n.sinks, w.sinks, 1, spec.heads, TensorKind::kFloatBias});
    visit({n.attention_out, w.attention_out, hidden, q_dim});
    if (spec.attention_out_bias) {
      visit({n.attention_out_bias, w.attention_out_bias, 1, hidden, TensorKind::kBias});
    }
    if (spec.norms_outputs) {
      norm(n.attention_out_norm, w.attention_out_norm, hidden);
      norm(n.mlp_out_norm, w.mlp_out_norm, hidden);
    }
    if (spec.norms_inputs) norm(n.mlp_norm, w.mlp_norm, hidden);
    if (spec.layers[i].has_experts) {
      visit_experts(spec, names.expert_storage, n, w, visit);
      continue;
    }
    visit_matrices(
        {{n.gate, w.gate, spec.intermediate, hidden}, {n.up, w.up, spec.intermediate, hidden}},
        visit);
    visit({n.down, w.down, hidden, spec.intermediate});
    if (spec.mlp_bias) {
      visit({n.gate_bias, w.gate_bias, 1, spec.intermediate, TensorKind::kBias});
      visit({n.up_bias, w.up_bias, 1, spec.intermediate, TensorKind::kBias});
      visit({n.down_bias, w.down_bias, 1, hidden, TensorKind::kBias});
    }
  }
  visit({names.final_norm, weights.final_norm, 1, hidden, TensorKind::kNorm});
  if (!spec.tied_embeddings) visit({names.output, weights.output, spec.vocab, hidden});
}

std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names) {
  return tensors_of(spec, names, [](const NeededTensor&) { return true; });
}

std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names,
                                                 const Checkpoint& files,
                                                 const QuantizedWeights& quantized) {
  std::vector<Checkpoint::Declared> all = needed_tensors(spec, names);
  Weights unused;
  size_t i = 0;
  for_each_tensor(spec, names, unused, [&](const NeededTensor& needed) {
    if (!needed.is_first()) return;
    Checkpoint::Declared& tensor = all[i++];
    if (needed.kind != TensorKind::kMatrix || !needed.is_turned()) return;
    if (!quantized.has(files, needed.name)) return;
    tensor.rows = OutputRows(needed).tensor.rows;
    tensor.cols = needed.cols;
  });
  return all;
}

std::vector<Checkpoint::Declared> needed_matrices(const ModelSpec& spec, const TensorNames& names) {
  return tensors_of(spec, names, [](const NeededTensor& needed) {
    return needed.kind == TensorKind::kEmbedding || needed.kind == TensorKind::kRouter ||
           (needed.kind == TensorKind::kMatrix && needed.stacked == 0);
  });
}

}  // namespace pagedinfer
