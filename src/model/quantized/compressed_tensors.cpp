// compressed-tensors: groups of modules, each with a type, a number of bits and a way of storing
// them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/numbers.h"
#include "core/refusal.h"
#include "core/tensor.h"
#include "io/json_file.h"
#include "model/quantized/block_scales.h"
#include "model/quantized/fp8_numbers.h"
#include "model/quantized/method.h"
#include "model/quantized/module_pattern.h"
#include "model/quantized/stored_codes.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kInt8Types[] = {"I8"};
constexpr std::string_view kShapeTypes[] = {"I64", "I32"};

enum class Storage : uint8_t { kFloats, kBytes, kPacked };

// One of "config_groups".
struct Scheme {
  std::vector<ModulePattern> targets = {};
  Storage storage = Storage::kBytes;
  int bits = 8;
  bool has_zeros = false, has_order = false;
  bool is_grouped = false;                 // columns are, in groups of one size
  int64_t block_rows = 0, block_cols = 0;  // 0: all rows, or all columns
};

std::vector<ModulePattern> read_patterns(const JsonObject& config, std::string_view key) {
  std::vector<ModulePattern> patterns;
  for (const std::string& text : config.strings(key)) {
    try {
      patterns.emplace_back(text);
    } catch (const Error& error) {
      config.complain(key, error.what());
    }
  }
  return patterns;
}

// Which numbers share a scale.
void read_strategy(const JsonObject& weights, Scheme& scheme) {
  const int64_t size = weights.find_integer("group_size", -1, kMaxBlock).value_or(0);
  const std::string of_size = size > 0 ? "group" : size < 0 ? "channel" : "tensor";
  const std::string strategy = weights.find_string("strategy").value_or(of_size);
  if (strategy == "tensor") return;
  scheme.block_rows = 1;
  if (strategy == "channel") return;
  if (strategy == "group" && size > 0) {
    scheme.block_cols = size;
    scheme.is_grouped = true;
    return;
  }
  const auto block = weights.integers("block_structure", 1, kMaxBlock);
  if (strategy == "block" && block.size() == 2) {
    scheme.block_rows = block[0];
    scheme.block_cols = block[1];
    return;
  }
  weights.complain("strategy", shortened(strategy),
                   "tensor, channel, group with a group_size, or block with a block_structure");
}

// `config` has the format of groups that name none.
void read_storage(const JsonObject& config, const JsonObject& group, const JsonObject& weights,
                  Scheme& scheme) {
  const JsonObject& teller = group.has("format") ? group : config;
  const std::string format = teller.find_string("format").value_or("");
  const bool is_float = weights.find_string("type").value_or("int") == "float";
  scheme.bits = static_cast<int>(weights.find_integer("num_bits", 1, 64).value_or(8));
  const bool is_naive = format == "naive-quantized";
  if (format == "pack-quantized") {
    scheme.storage = Storage::kPacked;
  } else if (format == "int-quantized" || (is_naive && !is_float)) {
    scheme.storage = Storage::kBytes;
  } else if (format == "float-quantized" || is_naive) {
    scheme.storage = Storage::kFloats;
  } else {
    teller.refuse("format", shortened(format),
                  fmt::format("pack-quantized, int-quantized, float-quantized or naive-quantized{}",
                              kTakeAnother));
  }
  if (is_float != (scheme.storage == Storage::kFloats)) {
    weights.complain("type", is_float ? "float" : "int", fmt::format("the other, for {}", format));
  }
  if (scheme.bits == 8 || (scheme.bits == 4 && scheme.storage != Storage::kFloats)) return;
  weights.fail("num_bits", fmt::format("is {}, which is not supported in {}{}", scheme.bits, format,
                                       kTakeAnother));
}

void refuse_order(const JsonObject& weights, Scheme& scheme) {
  const auto order = weights.find("actorder");
  if (!order) return;
  std::string_view name;
  if (order->is_bool()) name = bool(*order) ? "group" : "weight";
  if (order->is_string()) name = std::string_view(*order);
  if (name == "group" || name == "dynamic") {
    scheme.has_order = true;
  } else if (name != "weight" && name != "static") {
    weights.refuse("actorder", *order, "group, weight or null");
  }
}

std::string describe(const Scheme& scheme) {
  std::string text =
      scheme.storage == Storage::kFloats ? "fp8" : fmt::format("{} bits", scheme.bits);
  if (scheme.block_rows > 1) {
    return text + fmt::format(", blocks of {} x {}", scheme.block_rows, scheme.block_cols);
  }
  if (scheme.block_cols > 0) return text + fmt::format(", groups of {}", scheme.block_cols);
  return text + (scheme.block_rows == 1 ? ", a scale for each output" : ", one scale");
}

// nullopt if the group leaves weights as they are.
std::optional<Scheme> read_group(const JsonObject& config, const JsonObject& group) {
  const auto weights = group.find_object("weights");
  if (!weights) return std::nullopt;
  Scheme scheme = {.targets = read_patterns(group, "targets")};
  config.keep([&] { read_storage(config, group, *weights, scheme); });
  config.keep([&] { read_strategy(*weights, scheme); });
  config.keep([&] { refuse_order(*weights, scheme); });
  scheme.has_zeros = !weights->find_bool("symmetric").value_or(true);
  if (scheme.has_zeros && scheme.storage == Storage::kFloats) {
    weights->complain("symmetric", "is false, which is not supported for floats");
  }
  if (weights->find_bool("dynamic").value_or(false)) {
    weights->complain("dynamic", "is true, which is not supported for weights");
  }
  return scheme;
}

struct Schemes {
  std::vector<Scheme> all = {};
  std::vector<ModulePattern> ignored = {};
};

// The class of a module. All families call the embedding so.
std::string_view class_of(std::string_view module) {
  return module.ends_with("embed_tokens") ? "Embedding" : "Linear";
}

bool matches_any(const ModulePattern& pattern, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return pattern.matches(name); });
}

// How closely an entry of "targets" names a module, by the rules of compressed-tensors: a name
// counts more than an expression, and an expression more than a class of modules. 0: not at all.
int closeness(const ModulePattern& target, const std::vector<std::string>& names) {
  if (matches_any(target, names)) return target.is_expression() ? 2 : 3;
  return target.matches(class_of(names.front())) && !target.is_expression() ? 1 : 0;
}

// The first of those that name the module most closely; null if it is not quantized.
const Scheme* find_scheme(const Schemes& schemes, const std::string& module) {
  const std::vector<std::string> names = names_in_lists(module);
  for (const ModulePattern& ignored : schemes.ignored) {
    if (matches_any(ignored, names)) return nullptr;
  }
  const Scheme* found = nullptr;
  int closest = 0;
  for (const Scheme& scheme : schemes.all) {
    for (const ModulePattern& target : scheme.targets) {
      const int close = closeness(target, names);
      if (close > closest) found = &scheme;
      closest = std::max(close, closest);
    }
  }
  return found;
}

// Reads codes of `bits` bits. The first code of a word is in its lowest bits, and each row begins a
// word. The stored number is the code plus half the number of codes.
ReadCodes read_packed_codes(const uint32_t* words, int64_t cols, int bits) {
  const int64_t per_word = 32 / bits, words_across = ceil_div(cols, per_word);
  return [=](int64_t row, float* out) {
    const uint32_t* from = words + row * words_across;
    const auto half = static_cast<int32_t>(1u << (bits - 1)), mask = 2 * half - 1;
    for (int64_t i = 0; i < cols; i += per_word, ++from) {
      const int64_t end = std::min(cols, i + per_word);
      uint32_t word = *from;
      for (int64_t j = i; j < end; ++j, word >>= bits) {
        out[j] =
            static_cast<float>(static_cast<int32_t>(word & static_cast<uint32_t>(mask)) - half);
      }
    }
  };
}

// The words of a matrix of the storage kPacked.
const uint32_t* find_words(const Checkpoint& files, const std::string& module, int64_t rows,
                           int64_t cols, const Scheme& scheme) {
  const StoredTensor& shape = find_part(files, module + ".weight_shape", kShapeTypes, {{2}});
  const auto size = [&](size_t i) {
    return shape.type == "I64" ? numbers_of<int64_t>(shape)[i] : numbers_of<int32_t>(shape)[i];
  };
  if (size(0) != rows || size(1) != cols) {
    throw Error(fmt::format("{}: tensor '{}.weight_shape' holds [{}, {}], expected [{}, {}]",
                            shape.file, shortened(module), size(0), size(1), rows, cols));
  }
  const StoredTensor& words = find_part(files, module + ".weight_packed", kInt32Types,
                                        {{rows, ceil_div(cols, 32 / scheme.bits)}});
  return numbers_of<uint32_t>(words).data();
}

ReadCodes read_codes(const Checkpoint& files, const std::string& module, int64_t rows, int64_t cols,
                     const Scheme& scheme) {
  const std::string weight = module + ".weight";
  if (scheme.storage == Storage::kFloats) {
    return read_fp8_codes(find_part(files, weight, kFp8Types, {{rows, cols}}), cols);
  }
  if (scheme.storage == Storage::kBytes) {
    const StoredTensor& tensor = find_part(files, weight, kInt8Types, {{rows, cols}});
    return [codes = numbers_of<int8_t>(tensor).data(), cols](int64_t row, float* out) {
      std::copy_n(codes + row * cols, cols, out);
    };
  }
  return read_packed_codes(find_words(files, module, rows, cols, scheme), cols, scheme.bits);
}

// Zero points are stored as codes are, packed down the rows of blocks.
void find_zeros(const Checkpoint& files, const std::string& module, int64_t down,
                const Scheme& scheme, BlockScales& blocks) {
  const std::string name = module + ".weight_zero_point";
  const int64_t across = blocks.num_across;
  if (scheme.storage == Storage::kBytes) {
    const StoredTensor& tensor = down * across == 1
                                     ? find_part(files, name, kInt8Types, {{}, {1}, {1, 1}})
                                     : find_part(files, name, kInt8Types, {{down, across}});
    blocks.zero = [zeros = numbers_of<int8_t>(tensor).data(), across](int64_t i, int64_t j) {
      return static_cast<float>(zeros[i * across + j]);
    };
    return;
  }
  const int bits = scheme.bits;
  const int64_t per_word = 32 / bits;
  const StoredTensor& tensor =
      find_part(files, name, kInt32Types, {{ceil_div(down, per_word), across}});
  blocks.zero = [=, words = numbers_of<uint32_t>(tensor).data()](int64_t i, int64_t j) {
    const uint32_t word = words[i / per_word * across + j] >> (bits * (i % per_word));
    const auto half = static_cast<int32_t>(1u << (bits - 1));
    return static_cast<float>(static_cast<int32_t>(word & ((1u << bits) - 1)) - half);
  };
}

// Throws Error if a symmetric scheme has zero points other than 0.
void check_no_zeros(const Checkpoint& files, const std::string& module, int64_t down,
                    const Scheme& scheme, BlockScales blocks) {
  const std::string name = module + ".weight_zero_point";
  find_zeros(files, module, down, scheme, blocks);
  for (int64_t i = 0; i < down; ++i) {
    for (int64_t j = 0; j < blocks.num_across; ++j) {
      if (blocks.zero(i, j) == 0) continue;
      throw Error(fmt::format(
          "{}: tensor '{}' holds {}, expected 0: config.json calls the weights symmetric",
          files.stored(name).file, shortened(name), blocks.zero(i, j)));
    }
  }
}

BlockScales find_scales(const Checkpoint& files, const std::string& module, int64_t rows,
                        int64_t cols, const Scheme& scheme) {
  BlockScales blocks = {.block_rows = scheme.block_rows > 0 ? scheme.block_rows : rows,
                        .block_cols = scheme.block_cols > 0 ? scheme.block_cols : cols};
  const std::string name = module + ".weight_scale";
  if (scheme.is_grouped) check_multiple(files, name, "columns", cols, scheme.block_cols);
  const int64_t down = ceil_div(rows, blocks.block_rows);
  blocks.num_across = ceil_div(cols, blocks.block_cols);
  const StoredTensor& scales =
      down * blocks.num_across == 1
          ? find_part(files, name, kFloatTypes, {{}, {1}, {1, 1}})
          : find_part(files, name, kFloatTypes, {{down, blocks.num_across}});
  blocks.scales = StoredFloats(scales);
  if (scheme.has_zeros) {
    find_zeros(files, module, down, scheme, blocks);
  } else if (files.contains(module + ".weight_zero_point")) {
    check_no_zeros(files, module, down, scheme, blocks);
  }
  const std::string order = module + ".weight_g_idx";
  if (!scheme.has_order && !files.contains(order)) return blocks;
  const StoredTensor& groups = find_part(files, order, kInt32Types, {{cols}});
  blocks.block_of_column = numbers_of<int32_t>(groups);
  check_groups(groups, order, blocks.num_across);
  return blocks;
}

const Scheme& scheme_of(const Checkpoint& files, const std::string& module,
                        const Schemes& schemes) {
  const Scheme* const scheme = find_scheme(schemes, module);
  if (scheme == nullptr) {
    throw Error(
        fmt::format("'{}' is quantized in the checkpoint, but not by "
                    "quantization_config in config.json",
                    shortened(module)));
  }
  const bool is_packed = scheme->storage == Storage::kPacked;
  refuse_beside(files, module, is_packed ? "weight_packed" : "weight",
                is_packed ? "weight" : "weight_packed");
  return *scheme;
}

RowSource open_compressed(const Checkpoint& files, const std::string& module, int64_t rows,
                          int64_t cols, const Schemes& schemes) {
  const Scheme& scheme = scheme_of(files, module, schemes);
  return scaled_rows(rows, cols, read_codes(files, module, rows, cols, scheme),
                     find_scales(files, module, rows, cols, scheme));
}

// Whether these are codes of 4 bits with scales for each row.
bool has_codes_of_rows(const Scheme& scheme) {
  return scheme.storage == Storage::kPacked && scheme.bits == 4 && scheme.block_rows == 1;
}

std::optional<CodeSource> open_codes(const Checkpoint& files, const std::string& module,
                                     int64_t rows, int64_t cols, const Schemes& schemes) {
  const Scheme& scheme = scheme_of(files, module, schemes);
  if (!has_codes_of_rows(scheme)) return std::nullopt;
  const BlockScales blocks = find_scales(files, module, rows, cols, scheme);
  const auto source =
      codes_in_groups(rows, cols, blocks.block_cols, blocks.scales.type(), blocks.block_of_column);
  if (!source) return std::nullopt;
  constexpr int kCodesOfWord = 8, kZero = 8;
  return with_codes(
      *source,
      [=, words = find_words(files, module, rows, cols, scheme)](int64_t first, int64_t count,
                                                                 uint8_t* codes) {
        const int64_t words_across = ceil_div(cols, kCodesOfWord);
        for (int64_t row = first; row < first + count; ++row) {
          for (int64_t c = 0; c < cols; ++c) {
            const uint32_t word = words[row * words_across + c / kCodesOfWord];
            *codes++ = static_cast<uint8_t>(word >> (4 * (c % kCodesOfWord)) & 15);
          }
        }
      },
      [blocks](int64_t group, int64_t row) {
        return blocks.scales[row * blocks.num_across + group];
      },
      [blocks](int64_t group, int64_t row) {
        return blocks.zero ? static_cast<int>(blocks.zero(row, group)) + kZero : kZero;
      });
}

// Refuses all other settings that would change the results of a model.
void refuse_others(const JsonObject& config) {
  const auto transforms = config.find_object("transform_config");
  const auto groups = transforms ? transforms->find_object("config_groups") : std::nullopt;
  if (groups && groups->fields().size() > 0) {
    config.complain("transform_config",
                    fmt::format("is there, and rotations are not supported{}", kTakeAnother));
  }
  const auto sparsity = config.find_object("sparsity_config");
  const std::string format = sparsity ? sparsity->find_string("format").value_or("dense") : "dense";
  if (format != "dense") {
    config.complain("sparsity_config", fmt::format("has format {}, which is not supported{}",
                                                   shortened(format), kTakeAnother));
  }
}

}  // namespace

StoredForm read_compressed_tensors(const JsonObject& config) {
  StoredForm form = {.parts = {"weight_packed", "weight", "weight_shape", "weight_scale",
                               "weight_zero_point", "weight_g_idx"}};
  Schemes schemes;
  config.keep([&] { refuse_others(config); });
  schemes.ignored = read_patterns(config, "ignore");
  const auto groups = config.find_object("config_groups");
  if (!groups) config.refuse("config_groups", "", "an object");
  bool quantizes_activations = config.has("kv_cache_scheme");
  std::set<std::string> descriptions;
  for (const auto field : groups->fields()) {
    config.keep([&] {
      const auto group = groups->find_object(field.key);
      if (!group) groups->refuse(field.key, "null", "an object");
      for (const char* key : {"input_activations", "output_activations"}) {
        quantizes_activations = quantizes_activations || group->has(key);
      }
      if (auto scheme = read_group(config, *group)) {
        descriptions.insert(describe(*scheme));
        schemes.all.push_back(std::move(*scheme));
      }
    });
  }
  form.description = fmt::format("compressed-tensors{}{}", descriptions.empty() ? "" : ", ",
                                 fmt::join(descriptions, "; "));
  if (quantizes_activations) {
    form.notes = {"activations and the cache are not quantized as quantization_config asks for"};
  }
  form.open = [schemes](const Checkpoint& files, const std::string& module, MatrixSize size) {
    return open_compressed(files, module, size.rows, size.cols, schemes);
  };
  const auto has_codes = [](const Scheme& scheme) {
    return has_codes_of_rows(scheme) && keeps_groups(scheme.block_cols);
  };
  if (std::ranges::any_of(schemes.all, has_codes)) {
    form.open_codes = [schemes](const Checkpoint& files, const std::string& module,
                                MatrixSize size) {
      return open_codes(files, module, size.rows, size.cols, schemes);
    };
  }
  return form;
}

}  // namespace pagedinfer
