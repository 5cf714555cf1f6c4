// Random words of every method, size of groups and order of columns that keeps its codes, against
// the definitions.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/float16.h"
#include "io/json_file.h"
#include "model/quantized/quantized_weights.h"
#include "ops/code_source.h"
#include "tests/support/changed_checkpoint.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

constexpr int64_t kRows = 40, kCols = 256;

template <class T>
Entry entry_of(const char* type, std::vector<int64_t> shape, const std::vector<T>& numbers) {
  return {type, std::move(shape),
          std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T))};
}

// Words of (rows, cols) numbers of 4 bits, eight in a word along the columns, each at its place.
template <class Number>
Entry words_of(int64_t rows, int64_t cols, const Number& number,
               std::array<int, 8> place = {0, 1, 2, 3, 4, 5, 6, 7}) {
  std::vector<uint32_t> words(static_cast<size_t>(rows * cols / 8));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const auto shift = 4 * place[static_cast<size_t>(j % 8)];
      words[static_cast<size_t>((i * cols + j) / 8)] |= static_cast<uint32_t>(number(i, j))
                                                        << shift;
    }
  }
  return entry_of("I32", {rows, cols / 8}, words);
}

// Less 1 at each place of each word, with borrow.
Entry less_one(Entry words) {
  for (size_t i = 0; i < words.bytes.size(); i += sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, words.bytes.data() + i, sizeof word);
    word -= 0x11111111;
    std::memcpy(words.bytes.data() + i, &word, sizeof word);
  }
  return words;
}

struct DrawnCodes {
  DrawnCodes(int64_t size, bool with_zeros, bool with_order, std::mt19937& random)
      : groups(size > 0 ? kCols / size : 1),
        codes(kRows * kCols),
        zeros(kRows * groups, 8),
        scales(zeros.size()),
        group_of(kCols) {
    for (uint8_t& code : codes) code = random() % 16;
    for (uint8_t& zero : zeros) zero = with_zeros ? random() % 16 : 8;
    for (float& scale : scales) scale = static_cast<float>(1 + random() % 31) / 64;
    for (int64_t c = 0; c < kCols; ++c) group_of[c] = static_cast<int32_t>(c * groups / kCols);
    if (with_order) std::ranges::shuffle(group_of, random);
  }

  int code(int64_t row, int64_t col) const { return codes[row * kCols + col]; }
  int zero(int64_t row, int64_t group) const { return zeros[row * groups + group]; }
  Entry stored_scales(bool by_group) const {
    std::vector<uint16_t> stored;
    for (int64_t i = 0; i < kRows * groups; ++i) {
      stored.push_back(to_f16(by_group ? scales[i % kRows * groups + i / kRows] : scales[i]));
    }
    return entry_of("F16", by_group ? std::vector{groups, kRows} : std::vector{kRows, groups},
                    stored);
  }
  // The columns by their groups, those of a group as they were.
  std::vector<int32_t> order() const {
    std::vector<int32_t> columns;
    for (int32_t group = 0; group < groups; ++group) {
      for (int32_t c = 0; c < kCols; ++c) {
        if (group_of[c] == group) columns.push_back(c);
      }
    }
    return columns;
  }
  std::vector<float> values() const {
    std::vector<float> all;
    for (int64_t i = 0; i < kRows * kCols; ++i) {
      const int64_t row = i / kCols, group = group_of[i % kCols];
      all.push_back(static_cast<float>(codes[i] - zero(row, group)) * scales[row * groups + group]);
    }
    return all;
  }

  int64_t groups;
  std::vector<uint8_t> codes, zeros;
  std::vector<float> scales;
  std::vector<int32_t> group_of;
};

Entries tensors_of(const std::string& method, const DrawnCodes& m, bool with_zeros,
                   bool with_order) {
  const auto code = [&](int64_t row, int64_t col) { return m.code(row, col); };
  const auto turned = [&](int64_t col, int64_t row) { return m.code(row, col); };
  const auto zero = [&](int64_t group, int64_t row) { return m.zero(row, group); };
  Entries found;
  if (method == "compressed-tensors") {
    found["m.weight_packed"] = words_of(kRows, kCols, code);
    found["m.weight_shape"] = entry_of("I64", {2}, std::vector<int64_t>{kRows, kCols});
    found["m.weight_scale"] = m.stored_scales(false);
    if (with_order) found["m.weight_g_idx"] = entry_of("I32", {kCols}, m.group_of);
    if (!with_zeros) return found;
    std::vector<uint32_t> words(static_cast<size_t>(kRows / 8 * m.groups));
    for (int64_t i = 0; i < kRows * m.groups; ++i) {
      const int64_t row = i / m.groups, group = i % m.groups;
      words[row / 8 * m.groups + group] |= static_cast<uint32_t>(m.zero(row, group)) << row % 8 * 4;
    }
    found["m.weight_zero_point"] = entry_of("I32", {kRows / 8, m.groups}, words);
  } else if (method == "gptq") {
    // Eight numbers of a word are neighbours down the columns.
    std::vector<uint32_t> words(static_cast<size_t>(kCols / 8 * kRows));
    for (int64_t c = 0; c < kCols; ++c) {
      for (int64_t row = 0; row < kRows; ++row) {
        words[c / 8 * kRows + row] |= static_cast<uint32_t>(m.code(row, c)) << c % 8 * 4;
      }
    }
    found["m.qweight"] = entry_of("I32", {kCols / 8, kRows}, words);
    found["m.qzeros"] = less_one(words_of(m.groups, kRows, zero));
    found["m.scales"] = m.stored_scales(true);
    if (with_order) found["m.g_idx"] = entry_of("I32", {kCols}, m.group_of);
  } else {
    const std::array<int, 8> place = {0, 4, 1, 5, 2, 6, 3, 7};
    found["m.qweight"] = words_of(kCols, kRows, turned, place);
    found["m.qzeros"] = words_of(m.groups, kRows, zero, place);
    found["m.scales"] = m.stored_scales(true);
  }
  return found;
}

std::string config_of(const std::string& method, int64_t size, bool with_zeros, bool with_order) {
  if (method != "compressed-tensors") {
    return fmt::format(R"({{"quantization_config": {{"quant_method": "{}", "bits": 4,
        "group_size": {}, "desc_act": {}}}}})",
                       method, size, with_order);
  }
  return fmt::format(
      R"({{"quantization_config": {{"quant_method": "compressed-tensors",
      "format": "pack-quantized", "config_groups": {{"all": {{"targets": ["Linear"], "weights": {{
      "num_bits": 4, "type": "int", "symmetric": {}, {}{}}}}}}}}}}})",
      !with_zeros,
      size > 0 ? fmt::format(R"("strategy": "group", "group_size": {})", size)
               : R"("strategy": "channel")",
      with_order ? R"(, "actorder": "group")" : "");
}

}  // namespace

TEST_CASE("codes, scales and zero points of every method and group are kept bit for bit") {
  std::mt19937 random(43);
  for (const std::string method : {"compressed-tensors", "gptq", "awq"}) {
    for (const int64_t size : {32, 64, 128, -1}) {
      for (const int variant : {0, 1, 2, 3}) {
        const bool with_zeros = variant % 2 == 1, with_order = variant >= 2;
        if (with_order && (method == "awq" || size < 0)) continue;
        CAPTURE(method);
        CAPTURE(size);
        CAPTURE(variant);
        const DrawnCodes drawn(size, with_zeros, with_order, random);
        const TempDir dir;
        write_file(dir / "model.safetensors",
                   safetensors_of(tensors_of(method, drawn, with_zeros, with_order)));
        const Checkpoint files(dir.path());
        const JsonFile config("config.json", config_of(method, size, with_zeros, with_order));
        const auto kept =
            QuantizedWeights(config.root()).open_codes(files, "m.weight", {kRows, kCols});
        REQUIRE(kept);
        CHECK(kept->scales == CodeScales::kF16);
        CHECK(kept->has_zeros == with_zeros);
        CHECK(kept->num_groups() == drawn.groups);
        if (with_order) CHECK(kept->column_order == drawn.order());
        std::vector<uint8_t> codes(drawn.codes.size()), zeros(drawn.zeros.size());
        std::vector<float> scales(drawn.scales.size()), values(drawn.codes.size());
        kept->read(0, kRows, codes.data(), scales.data(), with_zeros ? zeros.data() : nullptr);
        CHECK(codes == drawn.codes);
        CHECK(scales == drawn.scales);
        if (with_zeros) CHECK(zeros == drawn.zeros);
        dequantized(*kept).read(0, kRows, values.data());
        CHECK(values == drawn.values());
      }
    }
  }
}

}  // namespace pagedinfer
