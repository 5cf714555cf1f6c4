#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "core/error.h"
#include "text/added_tokens.h"
#include "text/encode_error.h"
#include "text/tokenizer.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581 stands for a space in pieces

std::string unescape(std::string_view piece) {
  std::string text;
  for (size_t i = 0; i < piece.size();) {
    const bool space = piece.substr(i, kSpaceMark.size()) == kSpaceMark;
    text += space ? ' ' : piece[i];
    i += space ? kSpaceMark.size() : 1;
  }
  return text;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& file, bool add_bos) {
    if (const auto status = processor_.Load(file); !status.ok())
      throw Error(fmt::format("{}: not a SentencePiece model: {}", file, status.ToString()));
    // Appended to the file, these fields of it say normalizer_spec.add_dummy_prefix = false.
    constexpr std::string_view kNoPrefix{"\x1A\x02\x18\x00", 4};
    const std::string proto = processor_.serialized_model_proto() + std::string(kNoPrefix);
    if (const auto status = continuing_.LoadFromSerializedProto(proto); !status.ok())
      throw Error(fmt::format("{}: not a SentencePiece model: {}", file, status.ToString()));
    if (add_bos) bos_ = processor_.bos_id();
    special_ = std::make_unique<AddedTokens>(special_tokens());
    for (int id = 0; id < processor_.GetPieceSize(); ++id) bytes_.push_back(bytes_of(id));
  }

  std::vector<TokenId> encode(std::string_view text, AddBos add_bos) const override {
    std::vector<int> ids;
    if (bos_ >= 0 && add_bos == AddBos::kYes) ids.push_back(bos_);
    for (const AddedTokens::Part& part : special_->split(text)) {
      if (part.id) {
        ids.push_back(*part.id);
        continue;
      }
      const auto& processor = part.text.data() == text.data() ? processor_ : continuing_;
      std::vector<int> more;
      if (const auto status = processor.Encode(part.text, &more); !status.ok())
        throw EncodeError("SentencePiece: " + status.ToString());
      ids.insert(ids.end(), more.begin(), more.end());
    }
    return ids;
  }

  std::optional<TokenId> find_token(std::string_view text) const override {
    const int id = processor_.PieceToId(text);
    if (processor_.IdToPiece(id) != text) return std::nullopt;  // the unknown token's id
    return id;
  }

  std::string_view token_bytes(TokenId token) const override {
    if (token < 0 || token >= vocab_size()) return {};
    return bytes_[static_cast<size_t>(token)];
  }

  bool is_byte(TokenId token) const override {
    return token >= 0 && token < vocab_size() && processor_.IsByte(token);
  }

  int vocab_size() const override { return static_cast<int>(bytes_.size()); }

 private:
  std::vector<AddedToken> special_tokens() const {
    std::vector<AddedToken> tokens;
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      if (!processor_.IsControl(id) && !processor_.IsUnknown(id)) continue;
      const std::string& piece = processor_.IdToPiece(id);
      if (!piece.empty()) tokens.push_back({.id = id, .content = piece, .special = true});
    }
    return tokens;
  }

  std::string bytes_of(int id) const {
    if (processor_.IsControl(id) || processor_.IsUnknown(id)) return "";
    const std::string& piece = processor_.IdToPiece(id);
    if (!processor_.IsByte(id)) return unescape(piece);
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  }

  sentencepiece::SentencePieceProcessor processor_;
  sentencepiece::SentencePieceProcessor continuing_;  // puts no space before the first word
  std::unique_ptr<AddedTokens> special_;
  TokenId bos_ = -1;                     // none
  std::vector<std::string> bytes_ = {};  // by id
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model_file,
                                                        bool add_bos) {
  return std::make_unique<SentencePieceTokenizer>(model_file, add_bos);
}

}  // namespace pagedinfer
