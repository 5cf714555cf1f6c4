#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "core/float16.h"
#include "model/dummy.h"
#include "ops/code_source.h"
#include "ops/low_rank.h"
#include "ops/row_source.h"

namespace pagedinfer {
namespace {

// kRouter: a matrix that is multiplied in float32, whatever the type of computation.
// kFloatBias: a bias that is float32 for every type of computation.
enum class TensorKind : uint8_t { kEmbedding, kMatrix, kRouter, kNorm, kBias, kFloatBias };

// Rows of heads whose first 2 * num_pairs rows are pairs of neighbours in the checkpoint. On the
// device the first rows of all pairs come before the second ones. Without pairs nothing moves.
struct NeighbouringPairs {
  int64_t head_dim = 1, num_pairs = 0;

  int64_t stored_row(int64_t row) const {
    const int64_t in_head = row % head_dim;
    if (in_head >= 2 * num_pairs) return row;
    return row - in_head + 2 * (in_head % num_pairs) + in_head / num_pairs;
  }
};

// Rows that are columns of the checkpoint's tensor: row i is column first + i * step, from a row on
// that Needed gives. A bias is a matrix of one column here.
struct TurnedRows {
  int64_t stored_cols = 0;  // 0: they are rows there too
  int64_t first = 0, step = 1;
};

struct Needed {
  const std::string& name;
  Tensor& destination;  // in Weights
  int64_t rows, cols;
  TensorKind kind = TensorKind::kMatrix;
  // The place of its rows in the tensor of this name, which may have the rows of several matrices.
  int64_t first_row = 0, stored_rows = rows;
  // The matrices that are multiplied together; they must have one type.
  std::initializer_list<Needed> together = {};
  NeighbouringPairs pairs = {};  // of its rows, or of its numbers if it is a bias
  TurnedRows turned = {};
  bool is_expert = false;
  int64_t stacked = 0;  // experts whose matrices are in the tensor; 0: one or none

  bool is_turned() const { return turned.stored_cols > 0; }
  // As a matrix of one number for each output, if it is a bias.
  int64_t outputs() const { return kind == TensorKind::kBias ? cols : rows; }
  int64_t inputs() const { return kind == TensorKind::kBias ? 1 : cols; }
  int64_t stored_cols() const { return is_turned() ? turned.stored_cols : cols; }
  // Of all that are parts of the tensor of this name.
  bool is_first() const { return first_row == 0 && turned.first == 0; }
  bool is_last() const {
    if (!is_turned()) return first_row + rows == stored_rows;
    return first_row + inputs() == stored_rows &&
           turned.first + (outputs() - 1) * turned.step == turned.stored_cols - 1;
  }
};

using Visit = std::function<void(const Needed&)>;

// Matrices of the same name are the rows of one tensor, in this order.
void visit_matrices(std::initializer_list<Needed> matrices, const Visit& visit) {
  for (const Needed& matrix : matrices) {
    Needed part = matrix;
    part.stored_rows = 0;
    part.together = matrices;
    for (const Needed& other : matrices) {
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
      Needed needed = {.name = name, .destination = to, .rows = rows, .cols = cols};
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
  const Visit of_expert = [&](Needed needed) {
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

// Calls visit(Needed) for every tensor of the model.
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
    const auto rotated = [&](Needed needed) {
      if (spec.pair_rows == PairRows::kApart || rope == kNoRope) return needed;
      needed.pairs = {spec.head_dim, std::ssize(spec.ropes[rope].inv_freq)};
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

// Chosen so that products keep the scale of their input and norms multiply by about 1.
DummyRange dummy_range(const Needed& needed, const ModelSpec& spec) {
  switch (needed.kind) {
    case TensorKind::kNorm: return {1.0f - spec.norm_weight_offset, 0.25f};
    case TensorKind::kBias:
    case TensorKind::kFloatBias: return {0.0f, 0.25f};
    case TensorKind::kEmbedding:
    case TensorKind::kRouter:
    case TensorKind::kMatrix: break;
  }
  return {0.0f, std::sqrt(3.0f / static_cast<float>(needed.cols))};
}

bool is_multiplied(const OpenedModel& model, TensorKind kind) {
  return kind == TensorKind::kMatrix ||
         (kind == TensorKind::kEmbedding && model.spec.tied_embeddings);
}

// Whether the model's adapter changes the tensor.
bool is_sum(const OpenedModel& model, const Needed& needed) {
  return model.adapter && model.adapter->changes(needed.name);
}

// Whether its rows are computed or moved while they are loaded, so that it is a copy.
bool is_copied(const OpenedModel& model, const Needed& needed) {
  return is_sum(model, needed) || needed.pairs.num_pairs > 0 || needed.is_turned();
}

bool is_beside_sum(const OpenedModel& model, const Needed& needed) {
  return std::ranges::any_of(needed.together,
                             [&](const Needed& other) { return is_sum(model, other); });
}

bool is_quantized(const OpenedModel& model, const Needed& needed) {
  const bool is_matrix =
      needed.kind == TensorKind::kMatrix || needed.kind == TensorKind::kEmbedding;
  return is_matrix && model.quantized.has(model.checkpoint, needed.name);
}

// Whether only some of the matrices that are multiplied together are quantized.
bool is_quantized_in_part(const OpenedModel& model, const Needed& needed) {
  const auto quantized = std::ranges::count_if(
      needed.together, [&](const Needed& other) { return is_quantized(model, other); });
  return quantized > 0 && quantized < std::ssize(needed.together);
}

// An embedding that is looked up only stays as it is: a step reads few of its rows.
DType uploaded_type(const OpenedModel& model, const Needed& needed, DType of_file, DType compute,
                    const DeviceMemory& memory, Quantization quantize) {
  switch (needed.kind) {
    case TensorKind::kNorm:
    case TensorKind::kRouter:
    case TensorKind::kFloatBias: return DType::kF32;
    case TensorKind::kBias: return memory.bias_type(compute);
    case TensorKind::kEmbedding:
    case TensorKind::kMatrix: break;
  }
  const bool is_output =
      needed.kind == TensorKind::kEmbedding || &needed.name == &model.names.output;
  if (quantize == Quantization::kInt8 && is_multiplied(model, needed.kind)) return DType::kI8;
  if (quantize == Quantization::kInt4 && is_multiplied(model, needed.kind)) {
    return is_output ? DType::kI8 : DType::kI4;
  }
  if (is_sum(model, needed) || is_beside_sum(model, needed)) return compute;
  if (needed.is_expert && is_quantized_in_part(model, needed)) return compute;
  return memory.matrix_type(of_file, compute);
}

// The whole stored tensor that contains the needed rows.
Tensor stored_tensor(const Checkpoint& checkpoint, const Needed& needed) {
  return checkpoint.tensor(needed.name, needed.stored_rows, needed.stored_cols(), needed.stacked);
}

Tensor rows_of(const Needed& needed, Tensor stored) {
  stored.data =
      static_cast<char*>(stored.data) + needed.first_row * stored.stride * size_of(stored.dtype);
  stored.rows = needed.rows;
  return stored;
}

// The rows of a matrix, or of the matrices of all experts, as outputs even where the tensor is
// turned: so quantized tensors and adapters have them.
struct OutputRows {
  explicit OutputRows(const Needed& needed)
      : tensor{needed.stored_rows, needed.cols, needed.stacked},
        first(needed.first_row),
        pairs(needed.pairs) {
    if (!needed.is_turned()) return;
    tensor.rows = needed.stored_rows / needed.cols * needed.turned.stored_cols;
    first = needed.first_row / needed.cols * needed.turned.stored_cols + needed.turned.first;
    step = needed.turned.step;
  }

  bool are_neighbours() const { return step == 1 && pairs.num_pairs == 0; }
  int64_t stored_row(int64_t row) const { return first + pairs.stored_row(row) * step; }

  MatrixSize tensor;
  int64_t first, step = 1;
  NeighbouringPairs pairs;
};

RowSource open_quantized(const OpenedModel& model, const Needed& needed) {
  const OutputRows place(needed);
  RowSource source = model.quantized.open(model.checkpoint, needed.name, place.tensor);
  if (place.step == 1) return part_of(std::move(source), place.first, needed.rows);
  const int64_t cols = needed.cols;
  return {needed.rows, cols,
          [place, cols, read = std::move(source.read)](int64_t first, int64_t count, float* out) {
            for (int64_t row = first; row < first + count; ++row, out += cols) {
              read(place.first + row * place.step, 1, out);
            }
          }};
}

// The codes of 4 bits that the checkpoint has for these rows, if they are to stay; nullopt: there
// are none, or products cannot keep them.
std::optional<CodeSource> open_codes(const OpenedModel& model, const Needed& needed,
                                     Quantization quantize) {
  const bool stay = quantize == Quantization::kCodes || quantize == Quantization::kInt4;
  if (!stay) return std::nullopt;
  const auto open = [&](const Needed& matrix) -> std::optional<CodeSource> {
    if (!is_quantized(model, matrix) || is_sum(model, matrix)) return std::nullopt;
    auto codes =
        model.quantized.open_codes(model.checkpoint, matrix.name, OutputRows(matrix).tensor);
    // An expert's input is packed in its own order.
    if (codes && needed.is_expert && !codes->column_order.empty()) return std::nullopt;
    return codes;
  };
  auto all = open(needed);
  if (!all) return std::nullopt;
  const auto keeps_codes = [&](const Needed& other) {
    return other.name == needed.name || open(other).has_value();
  };
  if (needed.is_expert && !std::ranges::all_of(needed.together, keeps_codes)) return std::nullopt;
  const OutputRows place(needed);
  if (place.are_neighbours()) return part_of(*all, place.first, needed.rows);
  CodeSource codes = std::move(*all);
  codes.rows = needed.rows;
  codes.read = [place, cols = codes.cols, num_scales = codes.scales_of_row(),
                num_bytes = codes.bytes_of_row(), read = std::move(codes.read)](
                   int64_t first, int64_t count, uint8_t* to, float* scales, uint8_t* bytes) {
    for (int64_t row = first; row < first + count; ++row, to += cols, scales += num_scales) {
      read(place.stored_row(row), 1, to, scales, bytes);
      if (bytes != nullptr) bytes += num_bytes;
    }
  };
  return codes;
}

// As DeviceMemory::upload_matrix() and matrix_bytes(), and for kI4.
Tensor upload_rows(RowSource rows, DType type, DeviceMemory& memory) {
  if (type != DType::kI4) return memory.upload_matrix(rows, type);
  return memory.upload_codes(rounded_to_codes(std::move(rows), kInt4Group));
}
int64_t bytes_of_rows(int64_t rows, int64_t cols, DType type, const DeviceMemory& memory) {
  if (type != DType::kI4) return memory.matrix_bytes({nullptr, type, rows, cols, cols}, type);
  return memory.codes_bytes(rounded_to_codes({.rows = rows, .cols = cols}, kInt4Group));
}

// REQUIRES: is_sum().
RowSource open_sum(const OpenedModel& model, const Needed& needed, RowSource matrix,
                   const DeviceMemory& memory) {
  const Adapter& adapter = *model.adapter;
  const Tensor replacement = adapter.replacement_of(needed.name);
  if (!replacement.empty()) matrix = stored_rows(rows_of(needed, replacement));
  const OutputRows place(needed);
  return sum_of(std::move(matrix),
                adapter.update_of(needed.name, place.first, needed.rows, place.step),
                [&memory](const LowRankRow& row, int64_t first, int64_t n, float* y) {
                  memory.add_low_rank(row, first, n, y);
                });
}

// The same rows in the order of the device.
RowSource pairs_apart(RowSource source, const NeighbouringPairs& pairs) {
  if (pairs.num_pairs == 0) return source;
  const int64_t rows = source.rows, cols = source.cols;
  return {rows, cols,
          [pairs, cols, read = std::move(source.read)](int64_t first, int64_t count, float* out) {
            for (int64_t row = first; row < first + count; ++row, out += cols) {
              read(pairs.stored_row(row), 1, out);
            }
          }};
}

// The numbers of the rows on the device: with the adapter's update, in the device's order.
RowSource finished_rows(const OpenedModel& model, const Needed& needed, RowSource rows,
                        const DeviceMemory& memory) {
  const bool moves_first = model.spec.pair_rows == PairRows::kNeighboursInFile;
  if (moves_first) rows = pairs_apart(std::move(rows), needed.pairs);
  if (is_sum(model, needed)) rows = open_sum(model, needed, std::move(rows), memory);
  return moves_first ? rows : pairs_apart(std::move(rows), needed.pairs);
}

// REQUIRES: is_turned(); `stored` is the whole tensor.
RowSource turned_rows(const Needed& needed, const Tensor& stored) {
  const int64_t inputs = needed.inputs(), first_row = needed.first_row;
  const TurnedRows turned = needed.turned;
  return {needed.outputs(), inputs, [=](int64_t first, int64_t count, float* out) {
            // The numbers of a stored row lie together.
            for (int64_t k = 0; k < inputs; ++k) {
              for (int64_t i = 0; i < count; ++i) {
                out[i * inputs + k] =
                    stored_number(stored, first_row + k, turned.first + (first + i) * turned.step);
              }
            }
          }};
}

// A bias as the rows of a matrix, and such rows as a bias again.
Tensor as_column(const Tensor& bias) { return {bias.data, bias.dtype, bias.cols, 1, 1}; }
RowSource as_one_row(RowSource numbers) {
  const int64_t size = numbers.rows;
  return {1, size, [size, read = std::move(numbers.read)](int64_t, int64_t, float* out) {
            read(0, size, out);
          }};
}

Tensor upload_numbers(const std::vector<float>& numbers, DeviceMemory& memory) {
  if (numbers.empty()) return {};
  const auto size = static_cast<int64_t>(numbers.size());
  // upload() only reads it.
  return memory.upload({const_cast<float*>(numbers.data()), DType::kF32, 1, size, size},
                       DType::kF32);
}

template <class Has>
std::vector<Checkpoint::Declared> tensors_of(const ModelSpec& spec, const TensorNames& names,
                                             const Has& has) {
  std::vector<Checkpoint::Declared> all;
  Weights unused;
  for_each_tensor(spec, names, unused, [&](const Needed& needed) {
    if (!needed.is_first() || !has(needed)) return;
    all.push_back({needed.name, needed.stored_rows, needed.stored_cols(), needed.stacked});
  });
  return all;
}

// Rounds to nearest, ties to even.
float rounded(float value, DType type) {
  if (type == DType::kF16) return from_f16(to_f16(value));
  return type == DType::kBF16 ? from_bf16(to_bf16(value)) : value;
}

}  // namespace

DType file_dtype(const Checkpoint& files, const QuantizedWeights& quantized,
                 const TensorNames& names) {
  const std::string* name = nullptr;
  for (const std::string* matrix : {&names.embedding, &names.layers.front().q}) {
    if (!quantized.has(files, *matrix)) name = matrix;
  }
  if (name == nullptr && quantized.compute()) return *quantized.compute();
  return files.dtype(name == nullptr ? names.final_norm : *name);
}

Weights load_weights(const OpenedModel& model, DType compute, DeviceMemory& memory,
                     Quantization quantize, DType dequantized) {
  Weights weights;
  for_each_tensor(model.spec, model.names, weights, [&](const Needed& needed) {
    if (is_quantized(model, needed)) {
      const DType type = uploaded_type(model, needed, dequantized, compute, memory, quantize);
      model.quantized.read_ahead(model.checkpoint, needed.name);
      if (const auto codes = open_codes(model, needed, quantize)) {
        needed.destination = memory.upload_codes(*codes);
      } else {
        RowSource rows = finished_rows(model, needed, open_quantized(model, needed), memory);
        needed.destination = upload_rows(std::move(rows), type, memory);
      }
      if (!needed.is_last()) return;
      model.quantized.give_back(model.checkpoint, needed.name);
      if (is_sum(model, needed)) model.adapter->give_back(needed.name);
      return;
    }
    const Tensor stored = stored_tensor(model.checkpoint, needed);
    if (model.is_dummy && needed.is_first()) {
      fill_dummy(needed.name, dummy_range(needed, model.spec), stored);
    }
    const Tensor host = rows_of(needed, stored);
    const DType type = uploaded_type(model, needed, host.dtype, compute, memory, quantize);
    if (is_copied(model, needed) || type == DType::kI4) {
      const bool is_bias = needed.kind == TensorKind::kBias;
      RowSource rows = needed.is_turned() ? turned_rows(needed, stored)
                                          : stored_rows(is_bias ? as_column(host) : host);
      rows = finished_rows(model, needed, std::move(rows), memory);
      if (is_bias) rows = as_one_row(std::move(rows));
      needed.destination = upload_rows(std::move(rows), type, memory);
      if (!needed.is_last()) return;
      model.checkpoint.give_back(needed.name);
      if (is_sum(model, needed)) model.adapter->give_back(needed.name);
      return;
    }
    const bool is_matrix = is_multiplied(model, needed.kind);
    needed.destination = !is_matrix         ? memory.upload(host, type)
                         : needed.is_expert ? memory.upload_seldom_read(host, type)
                                            : memory.upload_matrix(host, type);
    if (needed.destination.data == host.data) {
      weights.viewed_files.insert(model.checkpoint.stored(needed.name).file);
    }
    if (is_matrix && memory.packs(type) && needed.is_last()) {
      model.checkpoint.give_back(needed.name);
    }
  });
  if (model.spec.tied_embeddings) weights.output = weights.embedding;
  const ModelSpec& spec = model.spec;
  weights.embedding_scale =
      spec.rounds_embedding_scale ? rounded(spec.embedding_scale, compute) : spec.embedding_scale;
  for (const RopeSpec& rope : spec.ropes) {
    weights.ropes.push_back({.short_runs = upload_numbers(rope.inv_freq, memory),
                             .long_runs = upload_numbers(rope.long_inv_freq, memory),
                             .q_factors = upload_numbers(rope.q_factors, memory)});
  }
  use_ropes(spec, spec.max_positions, weights);
  return weights;
}

std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names) {
  return tensors_of(spec, names, [](const Needed&) { return true; });
}

std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names,
                                                 const Checkpoint& files,
                                                 const QuantizedWeights& quantized) {
  std::vector<Checkpoint::Declared> all = needed_tensors(spec, names);
  Weights unused;
  size_t i = 0;
  for_each_tensor(spec, names, unused, [&](const Needed& needed) {
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
  return tensors_of(spec, names, [](const Needed& needed) {
    return needed.kind == TensorKind::kEmbedding || needed.kind == TensorKind::kRouter ||
           (needed.kind == TensorKind::kMatrix && needed.stacked == 0);
  });
}

int64_t num_merged(const Adapter& adapter, const ModelSpec& spec, const TensorNames& names,
                   const Checkpoint& files, const QuantizedWeights& quantized) {
  return std::ranges::count_if(
      needed_tensors(spec, names), [&](const Checkpoint::Declared& matrix) {
        return adapter.changes(matrix.name) && quantized.has(files, matrix.name);
      });
}

WeightBytes weight_bytes(const OpenedModel& model, DType compute, const DeviceMemory& memory,
                         Quantization quantize, DType dequantized) {
  Weights unused;
  WeightBytes bytes;
  const bool is_on_host = !memory.capacity();
  for_each_tensor(model.spec, model.names, unused, [&](const Needed& needed) {
    if (is_quantized(model, needed)) {
      if (const auto codes = open_codes(model, needed, quantize)) {
        bytes.copied += memory.codes_bytes(*codes);
        return;
      }
      const RowSource source = open_quantized(model, needed);
      const DType type = uploaded_type(model, needed, dequantized, compute, memory, quantize);
      bytes.copied += bytes_of_rows(source.rows, source.cols, type, memory);
      return;
    }
    const Tensor host = rows_of(needed, stored_tensor(model.checkpoint, needed));
    const DType type = uploaded_type(model, needed, host.dtype, compute, memory, quantize);
    if (is_copied(model, needed) || type == DType::kI4) {
      bytes.copied += bytes_of_rows(needed.rows, needed.cols, type, memory);
      return;
    }
    const bool is_matrix = is_multiplied(model, needed.kind);
    const bool stays = is_on_host && !(is_matrix && memory.packs(type));
    const int64_t mapped = stays ? host.bytes() : 0;
    bytes.mapped += mapped;
    bytes.copied +=
        (is_matrix ? memory.matrix_bytes(host, type) : memory.uploaded_bytes(host, type)) - mapped;
  });
  return bytes;
}

}  // namespace pagedinfer
