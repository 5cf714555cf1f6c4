#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"

namespace pagedinfer {

// The named tensors of a model directory: of model.safetensors, or of the shards that
// model.safetensors.index.json names. Maps the files and reads only their headers. tensor() gives
// matrices of floats; stored() any tensor, of any type of the format.
class Checkpoint {
 public:
  // Throws Error if a file is missing or a header or the index is invalid.
  explicit Checkpoint(const std::string& dir);
  // The tensors of one file. Throws Error if it cannot be read or its header is invalid.
  static Checkpoint of_file(const std::string& path);
  // Matrices of zeros instead of files. The caller may write them (through const_cast); they take
  // memory when they are touched. `source` is for messages. Throws Error if they are too large.
  struct Declared {
    std::string name;
    int64_t rows, cols;
    int64_t stacked = 0;  // matrices that are stored one below the other; 0: it is no stack
  };
  Checkpoint(const std::string& source, DType type, const std::vector<Declared>& tensors);
  // Tensors that refer to `files`. `source` is for messages.
  Checkpoint(std::string source, std::shared_ptr<const std::vector<MappedFile>> files,
             StoredTensors tensors);

  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  std::vector<std::string> names() const;
  const StoredTensors& tensors() const { return tensors_; }
  // The files that hold the tensors; for matrices of zeros their memory.
  const std::vector<MappedFile>& files() const { return *files_; }
  // The bytes of a tensor are aligned for its type. Throws Error if it is absent.
  const StoredTensor& stored(std::string_view name) const;
  // Whether two tensors have the same type, shape and bytes. REQUIRES: both exist.
  bool same(std::string_view a, std::string_view b) const;
  // Throws Error if the tensor is absent or its type is not F32, F16 or BF16.
  DType dtype(std::string_view name) const;
  // Throws Error if the tensor is absent, its type cannot be used or its shape is not (rows, cols).
  // A vector is one row. A stack of matrices may also be (stacked, rows / stacked, cols).
  void check(std::string_view name, int64_t rows, int64_t cols, int64_t stacked = 0) const;
  // A view of the mapping, valid while the checkpoint lives; its bytes are read ahead. Throws Error
  // as check() does.
  Tensor tensor(std::string_view name, int64_t rows, int64_t cols, int64_t stacked = 0) const;
  // Asks the system to prefetch the tensor. REQUIRES: it exists.
  void read_ahead(std::string_view name) const { MappedFile::read_ahead(stored(name).bytes); }
  // The tensor is not read again: its pages take no memory of the process any more. (The system
  // keeps those of a file until it needs their memory.)
  void give_back(std::string_view name) const;

 private:
  using Tensors = StoredTensors;

  Checkpoint() = default;
  static Tensors add_file(const std::string& path, std::vector<MappedFile>& files);
  void add_shards(const std::string& dir, const std::string& index_path,
                  std::vector<MappedFile>& files);
  void align();  // copies what is not aligned for its type

  std::string source_;  // the file that lists all tensors, for messages
  std::shared_ptr<const std::vector<MappedFile>> files_;
  // Copies of tensors that are not aligned for their type in the file.
  std::vector<std::vector<std::byte>> copies_;
  bool is_copy(const StoredTensor& tensor) const;
  Tensors tensors_;
};

}  // namespace pagedinfer
