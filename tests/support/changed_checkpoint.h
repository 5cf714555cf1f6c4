#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "tests/support/support.h"

namespace pagedinfer {

// Copies a checkpoint of tests/data/quantized into `dir`, with `to` in place of the first `from` of
// its config.json.
inline void copy_changed(const std::string& name, const std::string& from, const std::string& to,
                         const std::string& dir) {
  const std::string original = source_dir() + "/tests/data/quantized/" + name;
  std::filesystem::copy_file(original + "/model.safetensors", dir + "/model.safetensors");
  std::string config = read_file(original + "/config.json");
  REQUIRE(config.find(from) != std::string::npos);
  config.replace(config.find(from), from.size(), to);
  write_file(dir + "/config.json", config);
}

// A tensor of a checkpoint, as a test may change it.
struct Entry {
  std::string type;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Entries = std::map<std::string, Entry>;

inline Entries read_entries(const std::string& dir) {
  Entries entries;
  const Checkpoint files(dir);
  for (const auto& [name, tensor] : files.tensors()) {
    entries[name] = {
        tensor.type, tensor.shape,
        std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size())};
  }
  return entries;
}

inline std::string safetensors_of(const Entries& entries) {
  std::string header, data;
  for (const auto& [name, entry] : entries) {
    header +=
        fmt::format(R"({}"{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})",
                    header.empty() ? "{" : ", ", name, entry.type, fmt::join(entry.shape, ", "),
                    data.size(), data.size() + entry.bytes.size());
    data += entry.bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

}  // namespace pagedinfer
