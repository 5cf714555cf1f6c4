#pragma once

#include <cstdint>
#include <optional>

namespace pagedinfer {

constexpr int64_t align_up(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Divides one range of memory, by offsets. Permanent pieces grow from the beginning; pieces of a
// step grow from the end and are taken back all at once. Knows nothing of the memory itself.
class DeviceArena {
 public:
  // The alignment for which vector loads and products are fast. The permanent one is small, so that
  // weights are adjacent and a product can take several as one matrix.
  static constexpr int64_t kPermanentAlignment = 16;
  static constexpr int64_t kStepAlignment = 256;

  DeviceArena() = default;
  explicit DeviceArena(int64_t size) : size_(size / kStepAlignment * kStepAlignment) {}

  // Returns the offset of a new piece; nullopt if it does not fit, and then nothing has changed.
  [[nodiscard]] std::optional<int64_t> take_permanent(int64_t bytes,
                                                      int64_t alignment = kPermanentAlignment) {
    const int64_t offset = align_up(permanent_, alignment);
    if (bytes > size_ - step_ - offset) return std::nullopt;
    permanent_ = offset + bytes;
    return offset;
  }
  [[nodiscard]] std::optional<int64_t> take_step(int64_t bytes) {
    const int64_t rounded = align_up(bytes, kStepAlignment);
    if (rounded > size_ - step_ - permanent_) return std::nullopt;
    step_ += rounded;
    return size_ - step_;
  }
  void end_step() { step_ = 0; }
  // Takes back the pieces of the step that were taken since step() was `before`.
  void return_to(int64_t before) { step_ = before; }

  int64_t size() const { return size_; }
  int64_t permanent() const { return permanent_; }
  int64_t step() const { return step_; }

 private:
  int64_t size_ = 0;
  int64_t permanent_ = 0, step_ = 0;
};

}  // namespace pagedinfer
