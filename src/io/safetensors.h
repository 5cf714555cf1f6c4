#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "io/mapped_file.h"

namespace pagedinfer {

// One tensor of a file, as its header states it. The constructor of Checkpoint has checked
// that the bytes lie in the file and are as many as the shape needs.
struct StoredTensor {
  std::string type = {};  // the file's name for it: "BF16"
  std::vector<int64_t> shape = {};
  std::span<const std::byte> bytes = {};
  std::string file = {};  // for messages
};

// The named tensors of a model directory: model.safetensors, or the shards that
// model.safetensors.index.json names. Files are mapped, nothing is read but the headers.
// Tensors that nobody asks for may have any type.
class Checkpoint {
 public:
  // Throws Error for anything a header or the index gets wrong.
  explicit Checkpoint(const std::string& dir);
  // Of no files: matrices of zeros, which whoever has the checkpoint may write. They take memory
  // as they are touched. `source` is for messages. Throws Error if they are too large.
  struct Declared {
    std::string name;
    int64_t rows, cols;
  };
  Checkpoint(const std::string& source, DType type, const std::vector<Declared>& tensors);

  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  std::vector<std::string> names() const;
  // The files that hold the tensors, ascending.
  const std::vector<std::string>& paths() const { return paths_; }
  // Whether two tensors have the same type, shape and bytes. REQUIRES: both are there.
  bool same(std::string_view a, std::string_view b) const;
  // Throws Error if it is absent or its type is none that we compute with.
  DType dtype(std::string_view name) const;
  // A view of the mapping, valid while the checkpoint lives. A vector is one row. Throws Error
  // if it is absent or its shape or type is another one.
  Tensor tensor(std::string_view name, int64_t rows, int64_t cols) const;

 private:
  using Tensors = std::map<std::string, StoredTensor, std::less<>>;

  Tensors add_file(const std::string& path);
  void add_shards(const std::string& dir, const std::string& index_path);
  const StoredTensor& stored(std::string_view name) const;

  std::string source_;  // the file that lists all tensors, for messages
  std::vector<MappedFile> files_;
  std::vector<std::string> paths_;
  // Copies of tensors that their file does not align for their type.
  std::vector<std::vector<std::byte>> copies_;
  Tensors tensors_;
};

// Parses the header of one safetensors file. Throws Error, whatever the bytes are.
std::map<std::string, StoredTensor, std::less<>> parse_safetensors(const std::string& path,
                                                                   std::span<const std::byte> file);

}  // namespace pagedinfer
