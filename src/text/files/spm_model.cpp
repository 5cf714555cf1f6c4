#include "text/files/spm_model.h"

#include <algorithm>
#include <bit>
#include <string_view>

namespace pagedinfer {
namespace {

// Numbers of fields.
constexpr int kPieces = 1, kTrainer = 2, kNormalizer = 3;
constexpr int kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr int kModelType = 3, kByteFallback = 35, kUnknownId = 40, kBosId = 41, kEosId = 42;
constexpr int kNormalizerName = 1, kAddDummyPrefix = 3, kRemoveExtraWhitespaces = 4;
constexpr uint64_t kBpe = 2;
constexpr int kNumBytes = 256;

enum class WireType : uint8_t { kVarint = 0, kLength = 2, kFixed32 = 5 };

void append_varint(std::string& out, uint64_t value) {
  for (; value > 127; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
void append_tag(std::string& out, int field, WireType type) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}
void append_number(std::string& out, int field, uint64_t value) {
  append_tag(out, field, WireType::kVarint);
  append_varint(out, value);
}
void append_text(std::string& out, int field, std::string_view text) {
  append_tag(out, field, WireType::kLength);
  append_varint(out, text.size());
  out += text;
}
void append_float(std::string& out, int field, float value) {
  append_tag(out, field, WireType::kFixed32);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(bits >> 8 * i & 255);
}

}  // namespace

std::string spm_model(const SpmModel& model) {
  std::string bytes, part;
  for (const SpmPiece& piece : model.pieces) {
    part.clear();
    append_text(part, kPieceText, piece.text);
    append_float(part, kPieceScore, piece.score);
    append_number(part, kPieceType, static_cast<uint64_t>(piece.type));
    append_text(bytes, kPieces, part);
  }
  part.clear();
  append_number(part, kModelType, kBpe);
  const auto num_bytes =
      std::ranges::count(model.pieces, PieceType::kByte, [](const SpmPiece& p) { return p.type; });
  append_number(part, kByteFallback, num_bytes == kNumBytes);
  append_number(part, kUnknownId, static_cast<uint64_t>(model.unknown));
  append_number(part, kBosId, static_cast<uint64_t>(model.bos));
  append_number(part, kEosId, static_cast<uint64_t>(model.eos));
  append_text(bytes, kTrainer, part);
  part.clear();
  append_text(part, kNormalizerName, "identity");
  append_number(part, kAddDummyPrefix, model.adds_prefix);
  append_number(part, kRemoveExtraWhitespaces, model.removes_spaces);
  append_text(bytes, kNormalizer, part);
  return bytes;
}

}  // namespace pagedinfer
