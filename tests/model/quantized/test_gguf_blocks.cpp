// The block types of GGUF against tests/data/gguf_blocks.json.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "io/gguf_header.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "model/quantized/quantized_weights.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

std::string bytes_of(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

}  // namespace

TEST_CASE("blocks of every GGUF type are the numbers of the reference, bit for bit") {
  const JsonFile golden(source_dir() + "/tests/data/gguf_blocks.json");
  int num_types = 0;
  const JsonObject root = golden.root();
  for (const auto field : root.fields()) {
    const std::string type(field.key);
    CAPTURE(type);
    const JsonObject entry = root.within(type, simdjson::dom::object(field.value));
    const std::string blocks = bytes_of(entry.string("blocks"));
    const std::string expected = bytes_of(entry.string("numbers"));
    const auto size = gguf_type(type);
    REQUIRE(size);
    // Each block is a row.
    const auto rows = static_cast<int64_t>(blocks.size()) / size->bytes;
    const StoredTensor tensor = {
        type, {rows, size->numbers}, std::as_bytes(std::span(blocks)), "f"};
    const Checkpoint files("f", nullptr, {{"m.weight", tensor}});
    const JsonFile config(
        "f", fmt::format(
                 R"({{"quantization_config": {{"quant_method": "gguf_blocks", "types": ["{}"]}}}})",
                 type));
    const QuantizedWeights weights(config.root());
    REQUIRE(weights.has(files, "m.weight"));
    std::vector<float> numbers(expected.size() / sizeof(float));
    REQUIRE(numbers.size() == static_cast<size_t>(rows * size->numbers));
    weights.open(files, "m.weight", {rows, size->numbers}).read(0, rows, numbers.data());
    CHECK(std::memcmp(numbers.data(), expected.data(), expected.size()) == 0);
    CHECK(weights.has_codes());
    ++num_types;
  }
  CHECK(num_types == 13);
}

TEST_CASE("scales of MXFP4 that are no normal numbers are 0, and the last one is NaN") {
  const auto first_number = [](uint8_t scale) {
    // Its first code stands for 6.
    const std::string block = static_cast<char>(scale) + std::string(16, '\7');
    const StoredTensor tensor = {"MXFP4", {1, 32}, std::as_bytes(std::span(block)), "f"};
    const Checkpoint files("f", nullptr, {{"m.weight", tensor}});
    const JsonFile config(
        "f", R"({"quantization_config": {"quant_method": "gguf_blocks", "types": ["MXFP4"]}})");
    std::vector<float> numbers(32);
    QuantizedWeights(config.root()).open(files, "m.weight", {1, 32}).read(0, 1, numbers.data());
    return numbers[0];
  };
  CHECK(first_number(0) == 0);
  CHECK(first_number(1) == 0);
  CHECK(first_number(2) == std::ldexp(6.0f, -125));
  CHECK(first_number(127) == 6);
  CHECK(first_number(254) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(first_number(255)));
}

}  // namespace pagedinfer
