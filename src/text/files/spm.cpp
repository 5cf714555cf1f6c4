#include "text/files/spm.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "text/bpe/added_tokens.h"
#include "text/unicode/utf8.h"

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

// The library's error message without the source location that it begins with.
std::string reason_of(const sentencepiece::util::Status& status) {
  std::string_view text = status.message();
  if (const size_t place = text.find(".cc("); place != text.npos) {
    const size_t end = text.rfind("] ");
    text = end == text.npos ? "" : text.substr(end + 2);
  }
  return text.empty() ? "" : ": " + shortened(text);
}

void load(const std::string& file, std::string_view bytes,
          sentencepiece::SentencePieceProcessor& processor) {
  const auto status = processor.LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    throw Error(fmt::format("{}: is no SentencePiece model{}", file, reason_of(status)));
  }
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& file, std::string_view bytes,
                         const TokenizerConfig& config)
      : legacy_(config.legacy) {
    load(file, bytes, processor_);
    // Appended to the serialized file, this sets normalizer_spec.add_dummy_prefix = false.
    constexpr std::string_view kNoPrefix{"\x1A\x02\x18\x00", 4};
    load(file, processor_.serialized_model_proto() + std::string(kNoPrefix), continuing_);
    if (config.add_bos.value_or(true)) bos_ = processor_.bos_id();
    if (config.add_eos.value_or(false)) eos_ = processor_.eos_id();
    for (int id = 0; id < processor_.GetPieceSize(); ++id) bytes_.push_back(bytes_of(id));
    std::vector<AddedToken> tokens = special_tokens();
    for (const auto* more : {&config.added, &config.named, &config.extra}) {
      for (AddedToken token : *more) {
        if (!config.lists_added) token.id = -1;
        add(config.added_from, std::move(token), tokens);
      }
    }
    std::vector<AddedToken> found = tokens;
    std::erase_if(found, [&](const AddedToken& token) {
      return token.id >= vocab_size() || processor_.IsControl(token.id) ||
             processor_.IsUnknown(token.id);
    });
    found_by_library_ = std::make_unique<AddedTokens>(std::move(found));
    spelt_ = std::make_unique<AddedTokens>(std::move(tokens));
  }

  std::vector<TokenId> encode(std::string_view text, AddBos add_bos) const override {
    return encode_apart(text, add_bos, {});
  }

  std::vector<TokenId> encode_apart(std::string_view text, AddBos add_bos,
                                    const WrittenParts& written) const override {
    std::vector<int> ids;
    if (bos_ >= 0 && add_bos == AddBos::kYes) ids.push_back(bos_);
    // What people wrote is cut in two where the library would find an added token.
    const std::vector<size_t> passed = found_by_library_->places_of_controls(text, written);
    for (const AddedTokens::Part& part : spelt_->split(text, written)) {
      if (part.id) {
        ids.push_back(*part.id);
        continue;
      }
      const auto first = static_cast<size_t>(part.text.data() - text.data());
      size_t done = 0;
      for (const size_t place : passed) {
        if (place < first || place >= first + part.text.size()) continue;
        const size_t cut = place - first + utf8_size(text[place]);
        encode_piece(part.text.substr(done, cut - done), first + done == 0, done == 0, ids);
        done = cut;
      }
      encode_piece(part.text.substr(done), first + done == 0, done == 0, ids);
    }
    if (eos_ >= 0 && add_bos == AddBos::kYes) ids.push_back(eos_);
    return ids;
  }

  std::optional<AddedPrefix> added_prefix(std::string_view text) const override {
    return spelt_->prefix(text);
  }

  std::optional<TokenId> find_token(std::string_view text) const override {
    for (const auto& [spelling, added] : added_) {
      if (spelling == text) return added;
    }
    const int id = processor_.PieceToId(text);
    if (processor_.IdToPiece(id) != text) return std::nullopt;  // the unknown token's id
    return id;
  }

  std::string_view token_bytes(TokenId token) const override {
    if (token < 0 || static_cast<size_t>(token) >= bytes_.size()) return {};
    return bytes_[static_cast<size_t>(token)];
  }

  std::string_view special_text(TokenId token) const override {
    if (token >= 0 && token < vocab_size()) return processor_.IdToPiece(token);
    for (const auto& [spelling, added] : added_) {
      if (token == added) return spelling;
    }
    return {};
  }

  bool is_byte(TokenId token) const override {
    return token >= 0 && token < vocab_size() && processor_.IsByte(token);
  }

  int vocab_size() const override { return processor_.GetPieceSize(); }

 private:
  // Encodes text without added tokens, which stands at the beginning of all text or, if
  // `after_token`, behind an added token.
  void encode_piece(std::string_view text, bool at_start, bool after_token,
                    std::vector<int>& ids) const {
    if (text.empty()) return;
    const bool begins = at_start || (legacy_ && after_token && !text.starts_with(' '));
    const auto& processor = begins ? processor_ : continuing_;
    std::vector<int> more;
    if (const auto status = processor.Encode(text, &more); !status.ok()) {
      throw EncodeError("SentencePiece cannot encode the text" + reason_of(status));
    }
    ids.insert(ids.end(), more.begin(), more.end());
  }

  // Adds a token to the added tokens and, if the model has no such piece, to the vocabulary: with
  // its own id, or with the next free one if that is negative.
  void add(const std::string& file, AddedToken token, std::vector<AddedToken>& tokens) {
    const auto known = find_token(token.content);
    const auto next = static_cast<TokenId>(bytes_.size());
    const TokenId id = known.value_or(next);
    if (token.id >= 0 && token.id != id) {
      throw Error(fmt::format("{}: '{}' has the id {}, expected {}", file, shortened(token.content),
                              token.id, id));
    }
    token.id = id;
    if (!known) {
      bytes_.push_back(token.special ? "" : token.content);
      added_.emplace_back(token.content, id);
    } else if (token.special) {
      bytes_[static_cast<size_t>(id)].clear();
    }
    const auto same = [&](const AddedToken& other) { return other.content == token.content; };
    if (std::ranges::none_of(tokens, same)) tokens.push_back(std::move(token));
  }

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
  sentencepiece::SentencePieceProcessor continuing_;  // without a space before the first word
  std::unique_ptr<AddedTokens> spelt_;
  std::unique_ptr<AddedTokens> found_by_library_;  // those of spelt_ that it makes of text
  std::vector<std::pair<std::string, TokenId>> added_ = {};  // that the model lacks
  TokenId bos_ = -1, eos_ = -1;                              // none
  const bool legacy_;
  std::vector<std::string> bytes_ = {};  // by id
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& file,
                                                        std::string_view bytes,
                                                        const TokenizerConfig& config) {
  return std::make_unique<SentencePieceTokenizer>(file, bytes, config);
}

}  // namespace pagedinfer
