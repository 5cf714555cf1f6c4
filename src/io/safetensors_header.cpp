#include "io/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "io/json_parse.h"

namespace pagedinfer {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

struct TypeBits {
  std::string_view name;
  int bits;
};
constexpr TypeBits kTypes[] = {
    {"F32", 32},    {"F16", 16}, {"BF16", 16},   {"F64", 64},    {"I64", 64},
    {"U64", 64},    {"I32", 32}, {"U32", 32},    {"I16", 16},    {"U16", 16},
    {"I8", 8},      {"U8", 8},   {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8}, {"C64", 64}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
};

std::string shown_numbers(const std::vector<int64_t>& numbers) {
  return shortened(fmt::format("[{}]", fmt::join(numbers, ", ")));
}

// Bytes of a tensor; nullopt if that is not a whole number or overflows.
std::optional<uint64_t> bytes_of(const std::vector<int64_t>& shape, int bits) {
  uint64_t total = static_cast<uint64_t>(bits);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(total, static_cast<uint64_t>(size), &total)) return std::nullopt;
  }
  if (total % 8 != 0) return std::nullopt;
  return total / 8;
}

// The JSON text between its length (8 bytes, little-endian) and the data.
std::string_view header_of(const std::string& path, std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    throw Error(fmt::format("{}: has {} bytes, expected a header of at least {}", path, file.size(),
                            kLengthBytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  const uint64_t room = std::min<uint64_t>(file.size() - kLengthBytes, kMaxHeader);
  if (length > room) {
    throw Error(fmt::format("{}: the header is said to have {} bytes, expected at most {}", path,
                            length, room));
  }
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, length};
}

StoredTensor parse_tensor(const JsonObject& fields, const std::string& path,
                          std::span<const std::byte> data) {
  constexpr int64_t kMax = INT64_MAX;
  StoredTensor tensor = {fields.find_string("dtype").value_or(""), {}, {}, path};
  const int bits = bits_of_type(tensor.type);
  if (bits == 0) fields.refuse("dtype", shortened(tensor.type), "a type of the format");

  if (!fields.has("shape")) fields.refuse("shape", "", "a list of sizes");
  tensor.shape = fields.integers("shape", 0, kMax);
  const auto expected = bytes_of(tensor.shape, bits);
  if (!expected) {
    fields.refuse("shape", shown_numbers(tensor.shape), "a whole number of bytes below 2^64");
  }

  const std::vector<int64_t> range = fields.integers("data_offsets", 0, kMax);
  const auto says = [&](std::string_view expectation) {
    fields.refuse("data_offsets", shown_numbers(range), expectation);
  };
  if (range.size() != 2 || range[0] > range[1]) says("a begin and an end");
  const auto begin = static_cast<uint64_t>(range[0]), end = static_cast<uint64_t>(range[1]);
  if (end > data.size()) says(fmt::format("an end in the file's {} bytes of data", data.size()));
  if (end - begin != *expected) {
    says(fmt::format("{} bytes, for {} {}", *expected, tensor.type, shown_numbers(tensor.shape)));
  }
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

}  // namespace

int bits_of_type(std::string_view type) {
  const auto* const found = std::ranges::find(kTypes, type, &TypeBits::name);
  return found == std::end(kTypes) ? 0 : found->bits;
}

StoredTensors parse_safetensors(const std::string& path, std::span<const std::byte> file) {
  const std::string_view text = header_of(path, file);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());

  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::object object;
  if (const auto error = parse_model_json(parser, simdjson::padded_string(text)).get(root)) {
    throw Error(
        fmt::format("{}: the header is not JSON: {}", path, simdjson::error_message(error)));
  }
  if (root.get(object) != simdjson::SUCCESS) {
    throw Error(path + ": the header is not a JSON object");
  }

  const JsonObject header(path, "", object);
  StoredTensors tensors;
  for (const auto field : object) {
    if (field.key == "__metadata__") continue;
    if (!field.value.is_object()) header.fail(field.key, "is not an object");
    const JsonObject entry(path, fmt::format("{}.", field.key), simdjson::dom::object(field.value));
    if (!tensors.try_emplace(std::string(field.key), parse_tensor(entry, path, data)).second) {
      header.fail(field.key, "occurs twice");
    }
  }
  check_overlaps(path, tensors);
  return tensors;
}

void check_overlaps(const std::string& path, const StoredTensors& tensors) {
  std::vector<const StoredTensors::value_type*> order;
  for (const auto& entry : tensors) {
    if (!entry.second.bytes.empty()) order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.bytes.data() < b->second.bytes.data();
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto& before = order[i - 1]->second.bytes;
    if (order[i]->second.bytes.data() < before.data() + before.size()) {
      throw Error(fmt::format("{}: tensors '{}' and '{}' overlap", path,
                              shortened(order[i - 1]->first), shortened(order[i]->first)));
    }
  }
}

}  // namespace pagedinfer
