#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_file.h"
#include "model/gguf/architectures.h"

namespace pagedinfer {

// The metadata of a GGUF file below "ARCHITECTURE.", by their names there: "block_count". Throws
// Error, naming the file and the whole key, for a value of another type.
class GgufKeys {
 public:
  // REQUIRES: the file outlives this.
  explicit GgufKeys(const GgufFile& file)
      : metadata_(file.metadata()), architecture_(&find_architecture(metadata_)) {}

  const GgufArchitecture& architecture() const { return *architecture_; }
  const JsonObject& metadata() const { return metadata_; }
  std::string key(std::string_view name) const;

  bool has(std::string_view name) const { return metadata_.has(key(name)); }
  // An integer, or a list of equal ones: some writers have one for each layer. nullopt also if it
  // is a number with a fraction's type.
  std::optional<int64_t> find_integer(std::string_view name) const;
  int64_t integer(std::string_view name) const;  // throws Error if there is none
  std::optional<double> find_number(std::string_view name) const;
  std::optional<std::string> find_string(std::string_view name) const;
  std::vector<bool> booleans(std::string_view name) const;  // a list; empty: there is none

  int64_t heads() const { return integer("attention.head_count"); }
  int64_t head_dim() const;

 private:
  JsonObject metadata_;
  const GgufArchitecture* architecture_;
};

}  // namespace pagedinfer
