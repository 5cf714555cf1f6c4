#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

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

}  // namespace pagedinfer
