// GPTQ: 4 or 8 bits, the matrix transposed, several columns in a word, scales for groups of
// columns, which may be in any order.
#include <fmt/format.h>

#include "core/error.h"
#include "core/numbers.h"
#include "core/refusal.h"
#include "core/tensor.h"
#include "io/json_file.h"
#include "model/quantized/method.h"
#include "model/quantized/transposed.h"

namespace pagedinfer {
namespace {

struct Form {
  int bits = 4;
  int64_t group_size = -1;  // -1: one group
  bool adds_one = true;     // to the zero points
  bool has_order = false;   // columns of a group are anywhere
};

auto open_gptq(const Checkpoint& files, const std::string& module, int64_t rows, int64_t cols,
               const Form& form) {
  const int64_t per_word = 32 / form.bits;
  const int64_t size = form.group_size > 0 ? form.group_size : cols;
  const int64_t num_groups = ceil_div(cols, size);
  check_multiple(files, module + ".qweight", "rows", rows, per_word);
  check_multiple(files, module + ".qweight", "columns", cols, per_word);
  const StoredTensor& codes =
      find_part(files, module + ".qweight", kInt32Types, {{cols / per_word, rows}});
  const StoredTensor& zeros =
      find_part(files, module + ".qzeros", kInt32Types, {{num_groups, rows / per_word}});
  const StoredTensor& scales =
      find_part(files, module + ".scales", kFloatTypes, {{num_groups, rows}});
  const int32_t* order = nullptr;
  const std::string name = module + ".g_idx";
  if (files.contains(name) || (form.has_order && num_groups > 1)) {
    const StoredTensor& groups = find_part(files, name, kInt32Types, {{cols}});
    check_groups(groups, name, num_groups);
    order = numbers_of<int32_t>(groups).data();
  }
  const int bits = form.bits;
  const uint32_t mask = (1u << bits) - 1, one = form.adds_one ? 0xffffffff / mask : 0;
  const auto read_codes = [=, words = numbers_of<uint32_t>(codes).data()](
                              int64_t column, int64_t first, int64_t count, int32_t* out) {
    const uint32_t* const from = words + column / per_word * rows + first;
    const auto shift = static_cast<uint32_t>(bits * (column % per_word));
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(from[i] >> shift & mask);
  };
  const auto zero = [=, words = numbers_of<uint32_t>(zeros).data()](int64_t group, int64_t row) {
    const uint32_t word = words[(group * rows + row) / per_word] + one;
    return static_cast<int32_t>(word >> (bits * (row % per_word)) & mask);
  };
  return Transposed<decltype(read_codes), decltype(zero)>{.rows = rows,
                                                          .cols = cols,
                                                          .size = size,
                                                          .num_groups = num_groups,
                                                          .scales = StoredFloats(scales),
                                                          .read_codes = read_codes,
                                                          .zero = zero,
                                                          .group_of_column = order};
}

// "gptq" or "gptq_v2", by one of its names.
void read_version(const JsonObject& config, Form& form) {
  std::string version = "gptq";
  for (const char* key : {"format", "checkpoint_format"}) {
    version = config.find_string(key).value_or(version);
  }
  form.adds_one = version == "gptq";
  const bool is_marlin = config.find_bool("is_marlin_format").value_or(false);
  if (is_marlin || (version != "gptq" && version != "gptq_v2")) {
    config.complain("checkpoint_format", is_marlin ? "marlin" : shortened(version),
                    fmt::format("gptq or gptq_v2{}", kTakeAnother));
  }
}

// Refuses settings for some modules only. Their keys are regular expressions; "-:" is accepted: it
// excludes the modules that match, and the checkpoint has these unquantized.
void refuse_other_settings(const JsonObject& config) {
  const auto settings = config.find_object("dynamic");
  if (!settings) return;
  for (const auto field : settings->fields()) {
    if (field.key.starts_with("-:")) continue;
    config.complain("dynamic", fmt::format("has settings for '{}', which is not supported{}",
                                           shortened(field.key), kTakeAnother));
  }
}

}  // namespace

StoredForm read_gptq(const JsonObject& config) {
  StoredForm stored = {.parts = {"qweight", "qzeros", "scales", "g_idx"}, .codes = "qweight"};
  Form form;
  config.keep([&] {
    form.bits = static_cast<int>(config.integer("bits", 1, 64));
    if (form.bits == 4 || form.bits == 8) return;
    config.complain("bits", std::to_string(form.bits), fmt::format("4 or 8{}", kTakeAnother));
  });
  config.keep([&] {
    form.group_size = config.find_integer("group_size", -1, 1 << 24).value_or(-1);
    if (form.group_size == 0) config.complain("group_size", "0", "-1 or more than 0");
  });
  config.keep([&] { form.has_order = config.find_bool("desc_act").value_or(false); });
  config.keep([&] { read_version(config, form); });
  config.keep([&] { refuse_other_settings(config); });
  config.keep([&] {
    const std::string type = config.find_string("pack_dtype").value_or("int32");
    if (type != "int32") config.complain("pack_dtype", shortened(type), "int32");
  });
  stored.description =
      fmt::format("gptq{}, {} bits, {}", form.adds_one ? "" : " v2", form.bits,
                  form.group_size > 0 ? fmt::format("groups of {}", form.group_size) : "one group");
  stored.open = [form](const Checkpoint& files, const std::string& module, MatrixSize size) {
    return rows_of(open_gptq(files, module, size.rows, size.cols, form));
  };
  if (form.bits == 4 && keeps_groups(form.group_size)) {
    stored.open_codes = [form](const Checkpoint& files, const std::string& module,
                               MatrixSize size) {
      return codes_of(open_gptq(files, module, size.rows, size.cols, form));
    };
  }
  return stored;
}

}  // namespace pagedinfer
