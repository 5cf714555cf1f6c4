#include "io/gguf_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/refusal.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kOldest = 2, kNewest = 3;
constexpr size_t kMaxDims = 4;
constexpr uint64_t kMaxAlignment = 1 << 20;

struct GgufTypeRow {
  uint32_t id;
  std::string_view name;
  GgufType type;
};
constexpr GgufTypeRow kGgufTypes[] = {
    {0, "F32", {1, 4}},         {1, "F16", {1, 2}},         {2, "Q4_0", {32, 18}},
    {3, "Q4_1", {32, 20}},      {6, "Q5_0", {32, 22}},      {7, "Q5_1", {32, 24}},
    {8, "Q8_0", {32, 34}},      {9, "Q8_1", {32, 36}},      {10, "Q2_K", {256, 84}},
    {11, "Q3_K", {256, 110}},   {12, "Q4_K", {256, 144}},   {13, "Q5_K", {256, 176}},
    {14, "Q6_K", {256, 210}},   {15, "Q8_K", {256, 292}},   {16, "IQ2_XXS", {256, 66}},
    {17, "IQ2_XS", {256, 74}},  {18, "IQ3_XXS", {256, 98}}, {19, "IQ1_S", {256, 50}},
    {20, "IQ4_NL", {32, 18}},   {21, "IQ3_S", {256, 110}},  {22, "IQ2_S", {256, 82}},
    {23, "IQ4_XS", {256, 136}}, {24, "I8", {1, 1}},         {25, "I16", {1, 2}},
    {26, "I32", {1, 4}},        {27, "I64", {1, 8}},        {28, "F64", {1, 8}},
    {29, "IQ1_M", {256, 56}},   {30, "BF16", {1, 2}},       {34, "TQ1_0", {256, 54}},
    {35, "TQ2_0", {256, 66}},   {39, "MXFP4", {32, 17}},    {40, "NVFP4", {64, 36}},
    {41, "Q1_0", {128, 18}},    {42, "Q2_0", {64, 18}},
};

// The types of metadata, by their ids.
enum class ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

// Reads the header from its beginning to its end. Every read checks that the file goes so far.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::span<const std::byte> file)
      : path_(path), file_(file) {}

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  // A text of the file's own: valid while the file is mapped.
  std::string_view text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    const std::span<const std::byte> bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A number of things of at least `min_bytes` each, which the rest of the file has room for.
  uint64_t count(std::string_view what, uint64_t min_bytes) {
    const auto count = number<uint64_t>(what);
    if (count > left() / min_bytes) {
      fail(what, fmt::format("{}", count),
           fmt::format("at most {}, which the file has room for", left() / min_bytes));
    }
    return count;
  }

  uint64_t place() const { return place_; }
  uint64_t left() const { return file_.size() - place_; }
  [[noreturn]] void fail(std::string_view what, std::string_view found,
                         std::string_view expected) const {
    throw Error(fmt::format("{}: {}", path_, refusal(what, found, expected)));
  }

 private:
  std::span<const std::byte> take(uint64_t bytes, std::string_view what) {
    if (bytes > left()) {
      fail(what, fmt::format("{} bytes at byte {}", bytes, place_),
           fmt::format("at most {}, the rest of the file", left()));
    }
    const auto part = file_.subspan(place_, bytes);
    place_ += bytes;
    return part;
  }

  const std::string& path_;
  std::span<const std::byte> file_;
  uint64_t place_ = 0;
};

// The bytes that a value of the type has at least; 0: there is no such type.
uint64_t min_bytes_of(ValueType type) {
  constexpr uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  const auto id = static_cast<size_t>(type);
  return id < std::size(kBytes) ? kBytes[id] : 0;
}

void write_scalar(HeaderReader& in, ValueType type, std::string_view key, JsonWriter& json) {
  switch (type) {
    case ValueType::kU8: json.value(int{in.number<uint8_t>(key)}); return;
    case ValueType::kI8: json.value(int{in.number<int8_t>(key)}); return;
    case ValueType::kU16: json.value(in.number<uint16_t>(key)); return;
    case ValueType::kI16: json.value(in.number<int16_t>(key)); return;
    case ValueType::kU32: json.value(in.number<uint32_t>(key)); return;
    case ValueType::kI32: json.value(in.number<int32_t>(key)); return;
    case ValueType::kU64: json.value(in.number<uint64_t>(key)); return;
    case ValueType::kI64: json.value(in.number<int64_t>(key)); return;
    case ValueType::kF32: json.value(in.number<float>(key)); return;
    case ValueType::kF64: json.value(in.number<double>(key)); return;
    case ValueType::kBool: json.value(in.number<uint8_t>(key) != 0); return;
    case ValueType::kString: {
      const std::string_view text = in.text(key);
      if (!is_utf8(text)) in.fail(key, "bytes that are not UTF-8", "a text");
      json.value(text);
      return;
    }
    case ValueType::kArray: break;
  }
  in.fail(key, "a list in a list", "a list of numbers or texts");
}

ValueType read_type(HeaderReader& in, std::string_view key) {
  const auto type = in.number<uint32_t>(key);
  if (min_bytes_of(ValueType{type}) == 0) {
    in.fail(key, fmt::format("a value of type {}", type), "a type from 0 to 12");
  }
  return ValueType{type};
}

void write_value(HeaderReader& in, std::string_view key, JsonWriter& json) {
  const ValueType type = read_type(in, key);
  if (type != ValueType::kArray) return write_scalar(in, type, key, json);
  const ValueType of_items = read_type(in, key);
  const uint64_t count = in.count(key, min_bytes_of(of_items));
  json.begin_array();
  for (uint64_t i = 0; i < count; ++i) write_scalar(in, of_items, key, json);
  json.end_array();
}

// Returns the alignment of the data, in bytes.
uint64_t read_metadata(HeaderReader& in, uint64_t count, std::string& text) {
  constexpr std::string_view kAlignment = "general.alignment";
  uint64_t alignment = 32;
  std::set<std::string_view> keys;
  JsonWriter json(text);
  json.begin_object();
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view key = in.text("a key of the metadata");
    if (!is_utf8(key)) in.fail("a key of the metadata", "bytes that are not UTF-8", "a text");
    if (!keys.insert(key).second) in.fail(shortened(key), "it twice", "each key once");
    json.key(key);
    const size_t begin = text.size();
    write_value(in, shortened(key), json);
    if (key != kAlignment) continue;
    const std::string found = text.substr(begin);
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), alignment);
    if (error != std::errc() || end != found.data() + found.size() || alignment == 0 ||
        alignment > kMaxAlignment || !std::has_single_bit(alignment)) {
      in.fail(kAlignment, shortened(found), fmt::format("a power of 2 up to {}", kMaxAlignment));
    }
  }
  json.end_object();
  return alignment;
}

struct TensorInfo {
  std::string name;
  StoredTensor tensor;
  uint64_t offset = 0, bytes = 0;
};

TensorInfo read_tensor(HeaderReader& in, const std::string& path) {
  TensorInfo info = {.name = std::string(in.text("the name of a tensor")), .tensor = {}};
  if (!is_utf8(info.name)) in.fail("the name of a tensor", "bytes that are not UTF-8", "a text");
  const std::string what = fmt::format("tensor '{}'", shortened(info.name));
  const auto num_dims = in.number<uint32_t>(what);
  if (num_dims > kMaxDims) {
    in.fail(what, counted(num_dims, "size", "sizes"), fmt::format("at most {}", kMaxDims));
  }
  for (uint32_t i = 0; i < num_dims; ++i) {
    const auto size = in.number<uint64_t>(what);
    if (size > uint64_t{std::numeric_limits<int64_t>::max()}) {
      in.fail(what, fmt::format("size {}", size), "one below 2^63");
    }
    info.tensor.shape.insert(info.tensor.shape.begin(), static_cast<int64_t>(size));
  }
  const auto id = in.number<uint32_t>(what);
  const auto* const row = std::ranges::find(kGgufTypes, id, &GgufTypeRow::id);
  if (row == std::end(kGgufTypes)) {
    in.fail(what, fmt::format("type {}", id), "one of those that docs/gguf.md lists");
  }
  info.tensor.type = row->name;
  info.tensor.file = path;
  info.offset = in.number<uint64_t>(what);
  // Rows are whole blocks.
  const int64_t row_size = info.tensor.shape.empty() ? 1 : info.tensor.shape.back();
  if (row_size % row->type.numbers != 0) {
    in.fail(what, fmt::format("{} with rows of {}", row->name, row_size),
            fmt::format("rows of a multiple of {}", row->type.numbers));
  }
  uint64_t count = 1;
  for (const int64_t size : info.tensor.shape) {
    if (!__builtin_mul_overflow(count, static_cast<uint64_t>(size), &count)) continue;
    in.fail(what, shortened(fmt::format("[{}]", fmt::join(info.tensor.shape, ", "))),
            "fewer than 2^64 numbers");
  }
  if (__builtin_mul_overflow(count / static_cast<uint64_t>(row->type.numbers),
                             static_cast<uint64_t>(row->type.bytes), &info.bytes)) {
    in.fail(what, fmt::format("{} numbers", count), "fewer than 2^64 bytes");
  }
  return info;
}

}  // namespace

std::optional<GgufType> gguf_type(std::string_view name) {
  const auto* const row = std::ranges::find(kGgufTypes, name, &GgufTypeRow::name);
  return row == std::end(kGgufTypes) ? std::nullopt : std::optional(row->type);
}

bool is_gguf(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() && std::memcmp(file.data(), kMagic.data(), 4) == 0;
}

GgufHeader parse_gguf(const std::string& path, std::span<const std::byte> file) {
  if (!is_gguf(file)) throw Error(fmt::format("{}: does not begin with GGUF", path));
  HeaderReader in(path, file);
  static_cast<void>(in.number<uint32_t>("the first bytes"));
  const auto version = in.number<uint32_t>("the version");
  if (version < kOldest || version > kNewest) {
    const bool is_turned = __builtin_bswap32(version) <= kNewest;
    in.fail("the version", is_turned ? "big-endian numbers" : fmt::format("{}", version),
            fmt::format("{} or {}, little-endian", kOldest, kNewest));
  }
  constexpr uint64_t kMinTensor = 8 + 4 + 4 + 8, kMinPair = 8 + 4 + 1;
  const uint64_t num_tensors = in.count("the number of tensors", kMinTensor);
  const uint64_t num_pairs = in.count("the number of metadata", kMinPair);
  GgufHeader header;
  const uint64_t alignment = read_metadata(in, num_pairs, header.metadata);
  std::vector<TensorInfo> infos;
  for (uint64_t i = 0; i < num_tensors; ++i) infos.push_back(read_tensor(in, path));

  const uint64_t begin =
      std::min<uint64_t>((in.place() + alignment - 1) / alignment * alignment, file.size());
  const std::span<const std::byte> data = file.subspan(begin);
  for (TensorInfo& info : infos) {
    const std::string what = fmt::format("tensor '{}'", shortened(info.name));
    if (info.offset % alignment != 0) {
      in.fail(what, fmt::format("offset {}", info.offset),
              fmt::format("a multiple of {}", alignment));
    }
    if (info.offset > data.size() || info.bytes > data.size() - info.offset) {
      in.fail(what, fmt::format("{} bytes at {} of the data", info.bytes, info.offset),
              fmt::format("an end in the file's {} bytes of data", data.size()));
    }
    info.tensor.bytes = data.subspan(info.offset, info.bytes);
    if (!header.tensors.try_emplace(info.name, std::move(info.tensor)).second) {
      in.fail(what, "it twice", "each name once");
    }
  }
  check_overlaps(path, header.tensors);
  return header;
}

}  // namespace pagedinfer
