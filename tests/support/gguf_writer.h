// Writes GGUF files: metadata, then tensors in the order in which they are added.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

class GgufWriter {
 public:
  // Data lie at multiples of `alignment`, which the metadata must name if it is another.
  explicit GgufWriter(size_t alignment = 32) : alignment_(alignment) {}

  GgufWriter& text(std::string_view key, std::string_view value) {
    begin(key, 8);
    append_text(metadata_, value);
    return *this;
  }
  GgufWriter& number(std::string_view key, uint32_t value) {
    begin(key, 4);
    append(metadata_, value);
    return *this;
  }
  GgufWriter& real(std::string_view key, float value) {
    begin(key, 6);
    append(metadata_, value);
    return *this;
  }
  GgufWriter& flag(std::string_view key, bool value) {
    begin(key, 7);
    append(metadata_, static_cast<uint8_t>(value));
    return *this;
  }
  GgufWriter& texts(std::string_view key, std::span<const std::string> values) {
    begin_list(key, 8, values.size());
    for (const std::string& value : values) append_text(metadata_, value);
    return *this;
  }
  GgufWriter& integers(std::string_view key, std::span<const int32_t> values) {
    begin_list(key, 5, values.size());
    for (const int32_t value : values) append(metadata_, value);
    return *this;
  }
  GgufWriter& reals(std::string_view key, std::span<const float> values) {
    begin_list(key, 6, values.size());
    for (const float value : values) append(metadata_, value);
    return *this;
  }
  // `bytes` of any metadata, behind the key.
  GgufWriter& raw(std::string_view key, std::string_view bytes) {
    append_text(metadata_, key);
    metadata_ += bytes;
    ++num_metadata_;
    return *this;
  }
  // `shape` begins with the outermost size; `type` is GGUF's number.
  GgufWriter& tensor(std::string_view name, uint32_t type, const std::vector<int64_t>& shape,
                     std::string_view bytes) {
    data_.resize(aligned(data_.size()));
    append_text(infos_, name);
    append(infos_, static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) append(infos_, shape[i]);
    append(infos_, type);
    append(infos_, static_cast<uint64_t>(data_.size()));
    data_ += bytes;
    ++num_tensors_;
    return *this;
  }

  std::string file(uint32_t version = 3) const {
    std::string file = "GGUF";
    append(file, version);
    append(file, num_tensors_);
    append(file, num_metadata_);
    file += metadata_ + infos_;
    file.resize(aligned(file.size()));
    return file + data_;
  }

  template <class T>
  static void append(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void append_text(std::string& to, std::string_view text) {
    append(to, static_cast<uint64_t>(text.size()));
    to += text;
  }

 private:
  size_t aligned(size_t size) const { return (size + alignment_ - 1) / alignment_ * alignment_; }
  void begin(std::string_view key, uint32_t type) {
    append_text(metadata_, key);
    append(metadata_, type);
    ++num_metadata_;
  }
  void begin_list(std::string_view key, uint32_t type, size_t count) {
    begin(key, 9);
    append(metadata_, type);
    append(metadata_, static_cast<uint64_t>(count));
  }

  size_t alignment_;
  std::string metadata_, infos_, data_;
  uint64_t num_tensors_ = 0, num_metadata_ = 0;
};

}  // namespace pagedinfer
