#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/float16.h"
#include "model/dummy.h"
#include "model/needed_tensors.h"
#include "ops/code_source.h"
#include "ops/low_rank.h"
#include "ops/row_source.h"

namespace pagedinfer {
namespace {

// Chosen so that products keep the scale of their input and norms multiply by about 1.
DummyRange dummy_range(const NeededTensor& needed, const ModelSpec& spec) {
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
bool is_sum(const OpenedModel& model, const NeededTensor& needed) {
  return model.adapter && model.adapter->changes(needed.name);
}

// Whether its rows are computed or moved while they are loaded, so that it is a copy.
bool is_copied(const OpenedModel& model, const NeededTensor& needed) {
  return is_sum(model, needed) || needed.pairs.num_pairs > 0 || needed.is_turned();
}

bool is_beside_sum(const OpenedModel& model, const NeededTensor& needed) {
  return std::ranges::any_of(needed.together,
                             [&](const NeededTensor& other) { return is_sum(model, other); });
}

bool is_quantized(const OpenedModel& model, const NeededTensor& needed) {
  const bool is_matrix =
      needed.kind == TensorKind::kMatrix || needed.kind == TensorKind::kEmbedding;
  return is_matrix && model.quantized.has(model.checkpoint, needed.name);
}

// Whether only some of the matrices that are multiplied together are quantized.
bool is_quantized_in_part(const OpenedModel& model, const NeededTensor& needed) {
  const auto quantized = std::ranges::count_if(
      needed.together, [&](const NeededTensor& other) { return is_quantized(model, other); });
  return quantized > 0 && quantized < std::ssize(needed.together);
}

// An embedding that is looked up only stays as it is: a step reads few of its rows.
DType uploaded_type(const OpenedModel& model, const NeededTensor& needed, DType of_file,
                    DType compute, const DeviceMemory& memory, Quantization quantize) {
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
Tensor stored_tensor(const Checkpoint& checkpoint, const NeededTensor& needed) {
  return checkpoint.tensor(needed.name, needed.stored_rows, needed.stored_cols(), needed.stacked);
}

Tensor rows_of(const NeededTensor& needed, Tensor stored) {
  stored.data =
      static_cast<char*>(stored.data) + needed.first_row * stored.stride * size_of(stored.dtype);
  stored.rows = needed.rows;
  return stored;
}

RowSource open_quantized(const OpenedModel& model, const NeededTensor& needed) {
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
std::optional<CodeSource> open_codes(const OpenedModel& model, const NeededTensor& needed,
                                     Quantization quantize) {
  const bool stay = quantize == Quantization::kCodes || quantize == Quantization::kInt4;
  if (!stay) return std::nullopt;
  const auto open = [&](const NeededTensor& matrix) -> std::optional<CodeSource> {
    if (!is_quantized(model, matrix) || is_sum(model, matrix)) return std::nullopt;
    auto codes =
        model.quantized.open_codes(model.checkpoint, matrix.name, OutputRows(matrix).tensor);
    // An expert's input is packed in its own order.
    if (codes && needed.is_expert && !codes->column_order.empty()) return std::nullopt;
    return codes;
  };
  auto all = open(needed);
  if (!all) return std::nullopt;
  const auto keeps_codes = [&](const NeededTensor& other) {
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
RowSource open_sum(const OpenedModel& model, const NeededTensor& needed, RowSource matrix,
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
RowSource finished_rows(const OpenedModel& model, const NeededTensor& needed, RowSource rows,
                        const DeviceMemory& memory) {
  const bool moves_first = model.spec.pair_rows == PairRows::kNeighboursInFile;
  if (moves_first) rows = pairs_apart(std::move(rows), needed.pairs);
  if (is_sum(model, needed)) rows = open_sum(model, needed, std::move(rows), memory);
  return moves_first ? rows : pairs_apart(std::move(rows), needed.pairs);
}

// REQUIRES: is_turned(); `stored` is the whole tensor.
RowSource turned_rows(const NeededTensor& needed, const Tensor& stored) {
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
  for_each_tensor(model.spec, model.names, weights, [&](const NeededTensor& needed) {
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
  for_each_tensor(model.spec, model.names, unused, [&](const NeededTensor& needed) {
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
