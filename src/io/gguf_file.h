#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"

namespace pagedinfer {

constexpr std::string_view kGgufEnd = ".gguf";

// A model as a GGUF file, or as the shards NAME-00001-of-00003.gguf and so on. Maps the files and
// reads only their headers.
class GgufFile {
 public:
  // `path` is the file or the first shard. Throws Error if it is another shard, a shard is missing
  // or a header is invalid.
  explicit GgufFile(const std::string& path);

  // Those of the first shard. REQUIRES: this outlives the object.
  JsonObject metadata() const { return metadata_->root(); }
  // Of all shards, by GGUF's names; they refer to files().
  const StoredTensors& tensors() const { return tensors_; }
  const std::shared_ptr<const std::vector<MappedFile>>& files() const { return files_; }

 private:
  std::shared_ptr<const std::vector<MappedFile>> files_;
  std::unique_ptr<JsonFile> metadata_;
  StoredTensors tensors_;
};

// The path of the first shard of the shards that the file is one of; `path` if it is not named as a
// shard is.
std::string first_shard(const std::string& path);

}  // namespace pagedinfer
