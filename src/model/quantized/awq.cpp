// AWQ: 4 bits, the matrix transposed, eight rows in a word, scales for groups of columns.
#include <fmt/format.h>

#include <array>

#include "core/error.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "model/quantized/method.h"
#include "model/quantized/transposed.h"

namespace pagedinfer {
namespace {

constexpr int kBits = 4, kPerWord = 8;
// The lowest bits of a word are those of its row 0, the next of its row 2, then 4, 6, 1, 3, 5, 7.
// So row i has these bits, in units of kBits.
constexpr std::array<int, kPerWord> kPlace = {0, 4, 1, 5, 2, 6, 3, 7};

auto open_awq(const Checkpoint& files, const std::string& module, int64_t rows, int64_t cols,
              int64_t group_size) {
  const int64_t size = group_size > 0 ? group_size : cols;
  check_multiple(files, module + ".qweight", "rows", rows, kPerWord);
  check_multiple(files, module + ".qweight", "columns", cols, size);
  const int64_t num_groups = cols / size, words_across = rows / kPerWord;
  const StoredTensor& codes =
      find_part(files, module + ".qweight", kInt32Types, {{cols, words_across}});
  const StoredTensor& zeros =
      find_part(files, module + ".qzeros", kInt32Types, {{num_groups, words_across}});
  const StoredTensor& scales =
      find_part(files, module + ".scales", kFloatTypes, {{num_groups, rows}});
  const auto number = [](const uint32_t* words, int64_t row) {
    const int place = kPlace[static_cast<size_t>(row % kPerWord)];
    return static_cast<int32_t>(words[row / kPerWord] >> (kBits * place) & 15);
  };
  const auto read_codes = [=, words = numbers_of<uint32_t>(codes).data()](
                              int64_t column, int64_t first, int64_t count, int32_t* out) {
    const uint32_t* const of_column = words + column * words_across;
    for (int64_t i = 0; i < count; ++i) out[i] = number(of_column, first + i);
  };
  const auto zero = [=, words = numbers_of<uint32_t>(zeros).data()](int64_t group, int64_t row) {
    return number(words + group * words_across, row);
  };
  return Transposed<decltype(read_codes), decltype(zero)>{.rows = rows,
                                                          .cols = cols,
                                                          .size = size,
                                                          .num_groups = num_groups,
                                                          .scales = StoredFloats(scales),
                                                          .read_codes = read_codes,
                                                          .zero = zero};
}

}  // namespace

StoredForm read_awq(const JsonObject& config) {
  StoredForm form = {.parts = {"qweight", "qzeros", "scales"}, .codes = "qweight"};
  int64_t group_size = -1;
  config.keep([&] {
    const char* const key = config.has("w_bit") ? "w_bit" : "bits";
    const int64_t bits = config.integer(key, 1, 64);
    if (bits != kBits) config.complain(key, std::to_string(bits), fmt::format("4{}", kTakeAnother));
  });
  config.keep([&] {
    const char* const key = config.has("q_group_size") ? "q_group_size" : "group_size";
    group_size = config.find_integer(key, -1, 1 << 24).value_or(-1);
    if (group_size == 0) config.complain(key, "0", "-1 or more than 0");
  });
  config.keep([&] {
    std::string version = "gemm";
    for (const char* key : {"format", "version"}) {
      version = config.find_string(key).value_or(version);
    }
    if (version == "gemm" || version == "GEMM") return;
    config.complain("version", shortened(version), fmt::format("gemm{}", kTakeAnother));
  });
  config.keep([&] {
    if (config.find_bool("zero_point").value_or(true)) return;
    config.complain("zero_point", "false", fmt::format("true{}", kTakeAnother));
  });
  form.description = fmt::format(
      "awq, 4 bits, {}", group_size > 0 ? fmt::format("groups of {}", group_size) : "one group");
  form.open = [group_size](const Checkpoint& files, const std::string& module, MatrixSize size) {
    return rows_of(open_awq(files, module, size.rows, size.cols, group_size));
  };
  if (keeps_groups(group_size)) {
    form.open_codes = [group_size](const Checkpoint& files, const std::string& module,
                                   MatrixSize size) {
      return codes_of(open_awq(files, module, size.rows, size.cols, group_size));
    };
  }
  return form;
}

}  // namespace pagedinfer
