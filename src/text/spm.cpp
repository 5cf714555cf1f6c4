#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "core/error.h"
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
    if (add_bos) bos_ = processor_.bos_id();
    for (int id = 0; id < processor_.GetPieceSize(); ++id) bytes_.push_back(bytes_of(id));
  }

  std::vector<TokenId> encode(std::string_view text, AddBos add_bos) const override {
    std::vector<int> ids;
    if (const auto status = processor_.Encode(text, &ids); !status.ok())
      throw Error("SentencePiece: " + status.ToString());
    if (bos_ >= 0 && add_bos == AddBos::kYes) ids.insert(ids.begin(), bos_);
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

  int vocab_size() const override { return static_cast<int>(bytes_.size()); }

 private:
  std::string bytes_of(int id) const {
    if (processor_.IsControl(id) || processor_.IsUnknown(id)) return "";
    const std::string& piece = processor_.IdToPiece(id);
    if (!processor_.IsByte(id)) return unescape(piece);
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  }

  sentencepiece::SentencePieceProcessor processor_;
  TokenId bos_ = -1;                     // none
  std::vector<std::string> bytes_ = {};  // by id
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model_file,
                                                        bool add_bos) {
  return std::make_unique<SentencePieceTokenizer>(model_file, add_bos);
}

}  // namespace pagedinfer
