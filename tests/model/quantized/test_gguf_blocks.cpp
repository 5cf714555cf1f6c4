// The block types of GGUF against tests/data/gguf_blocks.json.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "io/gguf_header.h"
#include "io/json_file.h"
#include "model/quantized/gguf_blocks.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

std::vector<std::byte> bytes_of(std::string_view digits) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(
        static_cast<std::byte>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

}  // namespace

TEST_CASE("blocks of every GGUF type are the numbers of the reference, bit for bit") {
  const JsonFile golden(source_dir() + "/tests/data/gguf_blocks.json");
  int num_types = 0;
  for (const auto field : golden.root().fields()) {
    const std::string type(field.key);
    CAPTURE(type);
    const JsonObject entry = golden.root().within(type, simdjson::dom::object(field.value));
    const std::vector<std::byte> blocks = bytes_of(entry.string("blocks"));
    const std::vector<std::byte> expected = bytes_of(entry.string("numbers"));
    const auto size = gguf_type(type);
    REQUIRE(size);
    const ReadBlocks read = find_block_reader(type);
    REQUIRE(static_cast<bool>(read));
    const auto count = static_cast<int64_t>(blocks.size()) / size->bytes;
    std::vector<float> numbers(static_cast<size_t>(count * size->numbers));
    REQUIRE(numbers.size() * sizeof(float) == expected.size());
    read(blocks.data(), count, numbers.data());
    CHECK(std::memcmp(numbers.data(), expected.data(), expected.size()) == 0);
    ++num_types;
  }
  CHECK(num_types == 13);
}

}  // namespace pagedinfer
