// The tensors that a model needs: what each is, where it lies in the checkpoint, and where it goes.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "model/model.h"

namespace pagedinfer {

struct Weights;

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
// that NeededTensor gives. A bias is a matrix of one column here.
struct TurnedRows {
  int64_t stored_cols = 0;  // 0: they are rows there too
  int64_t first = 0, step = 1;
};

// A tensor, or a part of one, that the model needs.
struct NeededTensor {
  const std::string& name;
  Tensor& destination;  // in Weights
  int64_t rows, cols;
  TensorKind kind = TensorKind::kMatrix;
  // The place of its rows in the tensor of this name, which may have the rows of several matrices.
  int64_t first_row = 0, stored_rows = rows;
  // The matrices that are multiplied together; they must have one type.
  std::initializer_list<NeededTensor> together = {};
  NeighbouringPairs pairs = {};  // of its rows, or of its numbers if it is a bias
  TurnedRows turned = {};
  bool is_expert = false;
  int64_t stacked = 0;  // experts whose matrices are in the tensor; 0: one or none

  bool is_turned() const { return turned.stored_cols > 0; }
  // A bias counts as a matrix of one number for each output.
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

// The rows of a matrix, or of the matrices of all experts, as outputs even where the tensor is
// turned: so quantized tensors and adapters have them.
struct OutputRows {
  explicit OutputRows(const NeededTensor& needed)
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

// Calls visit() for every tensor of the model. Tensors that are multiplied together follow each
// other. A NeededTensor and what it refers to are valid during the call only. Makes the layers and
// experts of `weights`.
void for_each_tensor(const ModelSpec& spec, const TensorNames& names, Weights& weights,
                     const std::function<void(const NeededTensor&)>& visit);

// Names and shapes of the tensors that a model of this spec needs.
std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names);
// The same in the shapes that the files should have: rows of quantized matrices are outputs.
std::vector<Checkpoint::Declared> needed_tensors(const ModelSpec& spec, const TensorNames& names,
                                                 const Checkpoint& files,
                                                 const QuantizedWeights& quantized);
// The needed tensors that are multiplied or looked up, without those that hold the matrices of many
// experts. The first one is the embedding.
std::vector<Checkpoint::Declared> needed_matrices(const ModelSpec& spec, const TensorNames& names);

}  // namespace pagedinfer
