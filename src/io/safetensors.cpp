#include "io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "io/model_folder.h"
#include "io/open_file.h"

namespace pagedinfer {
namespace {

std::optional<DType> dtype_of(std::string_view type) {
  if (type == "F32") return DType::kF32;
  if (type == "F16") return DType::kF16;
  if (type == "BF16") return DType::kBF16;
  return std::nullopt;
}

}  // namespace

Checkpoint::Checkpoint(const std::string& dir) {
  const std::string single = dir + "/model.safetensors";
  const std::string index = single + ".index.json";
  std::vector<MappedFile> files;
  if (file_exists(single)) {
    source_ = single;
    tensors_ = add_file(single, files);
  } else if (file_exists(index)) {
    source_ = index;
    add_shards(dir, index, files);
  } else {
    throw Error(fmt::format("{}: has neither model.safetensors nor model.safetensors.index.json{}",
                            dir, other_model_files(dir)));
  }
  files_ = std::make_shared<const std::vector<MappedFile>>(std::move(files));
  align();
}

Checkpoint Checkpoint::of_file(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.source_ = path;
  std::vector<MappedFile> files;
  checkpoint.tensors_ = add_file(path, files);
  checkpoint.files_ = std::make_shared<const std::vector<MappedFile>>(std::move(files));
  checkpoint.align();
  return checkpoint;
}

void Checkpoint::align() {
  for (auto& [name, stored] : tensors_) {
    const auto alignment = static_cast<uintptr_t>(std::max(bits_of_type(stored.type) / 8, 1));
    if (reinterpret_cast<uintptr_t>(stored.bytes.data()) % alignment == 0) continue;
    copies_.emplace_back(stored.bytes.begin(), stored.bytes.end());
    stored.bytes = copies_.back();
  }
}

Checkpoint::Checkpoint(const std::string& source, DType type, const std::vector<Declared>& tensors)
    : source_(source) {
  constexpr int64_t kAlignment = 64, kMax = int64_t{1} << 46;
  const auto bytes_of = [&](const Declared& d) { return d.rows * d.cols * size_of(type); };
  int64_t total = 0;
  for (const Declared& d : tensors) {
    int64_t elements = 0;
    if (__builtin_mul_overflow(d.rows, d.cols, &elements) || elements > kMax || total > kMax) {
      throw Error(fmt::format("{}: tensor '{}' of [{}, {}] is too large", source, shortened(d.name),
                              d.rows, d.cols));
    }
    total += (bytes_of(d) + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::vector<MappedFile> files;
  files.push_back(MappedFile::zeros(static_cast<size_t>(total)));
  std::span<const std::byte> rest = files.back().bytes();
  files_ = std::make_shared<const std::vector<MappedFile>>(std::move(files));
  for (const Declared& d : tensors) {
    const auto bytes = static_cast<size_t>(bytes_of(d));
    const std::string_view name = type == DType::kF32   ? "F32"
                                  : type == DType::kF16 ? "F16"
                                                        : "BF16";
    tensors_[d.name] = {std::string(name), {d.rows, d.cols}, rest.first(bytes), source};
    rest = rest.subspan((bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
}

Checkpoint::Checkpoint(std::string source, std::shared_ptr<const std::vector<MappedFile>> files,
                       StoredTensors tensors)
    : source_(std::move(source)), files_(std::move(files)), tensors_(std::move(tensors)) {
  align();
}

Checkpoint::Tensors Checkpoint::add_file(const std::string& path, std::vector<MappedFile>& files) {
  files.emplace_back(path);
  return parse_safetensors(path, files.back().bytes());
}

void Checkpoint::add_shards(const std::string& dir, const std::string& index_path,
                            std::vector<MappedFile>& files) {
  const JsonFile index(index_path);
  const auto weight_map = index.root().find_object("weight_map");
  if (!weight_map) index.root().refuse("weight_map", "", "an object");

  std::map<std::string, Tensors, std::less<>> shards;
  for (const auto field : weight_map->fields()) {
    std::string_view value;
    if (field.value.get(value) != simdjson::SUCCESS) value = {};
    const std::string shard(value);
    if (shard.empty() || shard.find('/') != std::string::npos || shard == "..") {
      weight_map->refuse(field.key, shortened(shard), "the name of a file");
    }
    const std::string path = dir + "/" + shard;
    if (!file_exists(path)) {
      throw Error(fmt::format("{}: is missing, {} expects tensor '{}' in it", path, index_path,
                              shortened(field.key)));
    }
    if (!shards.contains(shard)) shards[shard] = add_file(path, files);
    const auto found = shards[shard].find(field.key);
    if (found == shards[shard].end()) {
      throw Error(fmt::format("{}: no tensor '{}', which {} expects in it", path,
                              shortened(field.key), index_path));
    }
    tensors_[std::string(field.key)] = found->second;
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& entry : tensors_) names.push_back(entry.first);
  return names;
}

const StoredTensor& Checkpoint::stored(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(fmt::format("{}: no tensor '{}'", source_, shortened(name)));
  }
  return found->second;
}

bool Checkpoint::same(std::string_view a, std::string_view b) const {
  const StoredTensor &x = stored(a), &y = stored(b);
  return x.type == y.type && x.shape == y.shape &&
         std::memcmp(x.bytes.data(), y.bytes.data(), x.bytes.size()) == 0;
}

DType Checkpoint::dtype(std::string_view name) const {
  const StoredTensor& tensor = stored(name);
  const auto type = dtype_of(tensor.type);
  if (!type) {
    throw Error(fmt::format("{}: tensor '{}' has type {}, expected F32, F16 or BF16", tensor.file,
                            shortened(name), tensor.type));
  }
  return *type;
}

void Checkpoint::check(std::string_view name, int64_t rows, int64_t cols, int64_t stacked) const {
  const StoredTensor& tensor = stored(name);
  static_cast<void>(dtype(name));
  const bool vector = rows == 1 && tensor.shape == std::vector<int64_t>{cols};
  const bool stack =
      stacked > 0 && tensor.shape == std::vector<int64_t>{stacked, rows / stacked, cols};
  if (!vector && !stack && tensor.shape != std::vector<int64_t>{rows, cols}) {
    throw Error(fmt::format("{}: tensor '{}' has shape [{}], expected [{}]", tensor.file,
                            shortened(name),
                            shortened(fmt::format("{}", fmt::join(tensor.shape, ", "))),
                            rows == 1     ? fmt::format("{}", cols)
                            : stacked > 0 ? fmt::format("{}, {}, {}", stacked, rows / stacked, cols)
                                          : fmt::format("{}, {}", rows, cols)));
  }
}

bool Checkpoint::is_copy(const StoredTensor& tensor) const {
  return std::ranges::any_of(copies_,
                             [&](const auto& copy) { return copy.data() == tensor.bytes.data(); });
}

void Checkpoint::give_back(std::string_view name) const {
  const StoredTensor& tensor = stored(name);
  if (!is_copy(tensor)) MappedFile::give_back(tensor.bytes);
}

Tensor Checkpoint::tensor(std::string_view name, int64_t rows, int64_t cols,
                          int64_t stacked) const {
  check(name, rows, cols, stacked);
  const StoredTensor& tensor = stored(name);
  MappedFile::read_ahead(tensor.bytes);
  // Read-only memory behind a pointer that is not const: an Ops does not write to weights.
  return {const_cast<std::byte*>(tensor.bytes.data()), dtype(name), rows, cols, cols};
}

}  // namespace pagedinfer
