// Writes a SentencePiece model, in the format of protocol buffers
// (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pagedinfer {

// As the format numbers them; GGUF has the same numbers.
enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SpmPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

// A model that merges pairs by their scores, and spells unknown characters in bytes if it has all
// of these.
struct SpmModel {
  std::vector<SpmPiece> pieces = {};
  int unknown = 0, bos = 1, eos = 2;
  bool adds_prefix = true;      // a space before all text
  bool removes_spaces = false;  // at the ends, and of several neighbours
};

// The bytes of the model's file.
std::string spm_model(const SpmModel& model);

}  // namespace pagedinfer
