#include "text/bpe/bpe_tokenizer.h"

#include <utility>

namespace pagedinfer {
namespace {

// The added tokens that are searched before the normalization (or after it).
AddedTokens select(const BpeParts& parts, bool normalized) {
  std::vector<AddedToken> tokens;
  std::vector<std::string> contents;
  for (const AddedToken& token : parts.added) {
    if (token.normalized != normalized) continue;
    std::string content = normalized ? parts.normalizer.apply(token.content) : token.content;
    if (content.empty()) continue;
    tokens.push_back(token);
    contents.push_back(std::move(content));
  }
  return {std::move(tokens), contents};
}

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts)
      : parts_(std::move(parts)), plain_(select(parts_, false)), normal_(select(parts_, true)) {
    const auto num_ids = static_cast<size_t>(parts_.vocabulary->num_ids());
    bytes_.resize(num_ids);
    is_byte_.resize(num_ids);
    for (TokenId id = 0; id < parts_.vocabulary->num_ids(); ++id) {
      const std::string_view spelt = parts_.vocabulary->text(id);
      bytes_[static_cast<size_t>(id)] = parts_.text.bytes_of(spelt);
      is_byte_[static_cast<size_t>(id)] = parts_.text.byte_of(spelt).has_value();
    }
    for (const AddedToken& token : parts_.added) {
      const auto id = static_cast<size_t>(token.id);
      if (token.special) {
        bytes_[id].clear();
        is_byte_[id] = false;
      } else if (token.normalized) {  // its content is normalized too
        const std::string spelt = parts_.normalizer.apply(token.content);
        bytes_[id] = parts_.text.bytes_of(spelt);
        is_byte_[id] = parts_.text.byte_of(spelt).has_value();
      }
    }
  }

  std::vector<TokenId> encode(std::string_view text, AddBos add_bos) const override {
    return encode_apart(text, add_bos, {});
  }

  std::vector<TokenId> encode_apart(std::string_view text, AddBos add_bos,
                                    const WrittenParts& written) const override {
    std::vector<TokenId> ids;
    if (add_bos == AddBos::kYes) ids = parts_.prefix;
    for (const AddedTokens::Part& part : plain_.split(text, written)) {
      if (part.id) {
        ids.push_back(*part.id);
      } else {
        const auto begin = static_cast<size_t>(part.text.data() - text.data());
        const bool is_written = written.touch(begin, begin + part.text.size());
        encode_between(part.text, begin == 0, is_written ? &written : nullptr, ids);
      }
    }
    if (add_bos == AddBos::kYes) ids.insert(ids.end(), parts_.suffix.begin(), parts_.suffix.end());
    return ids;
  }

  std::optional<AddedPrefix> added_prefix(std::string_view text) const override {
    for (const AddedTokens* tokens : {&plain_, &normal_}) {
      if (const auto found = tokens->prefix(text)) return found;
    }
    return std::nullopt;
  }

  std::optional<TokenId> find_token(std::string_view text) const override {
    return parts_.vocabulary->find(text);
  }

  std::string_view token_bytes(TokenId token) const override {
    if (!parts_.vocabulary->has(token)) return {};
    return bytes_[static_cast<size_t>(token)];
  }

  std::string_view special_text(TokenId token) const override {
    return parts_.vocabulary->text(token);
  }

  bool is_byte(TokenId token) const override {
    return parts_.vocabulary->has(token) && is_byte_[static_cast<size_t>(token)];
  }

  int vocab_size() const override { return parts_.vocab_size; }

 private:
  // Encodes a text without added tokens of plain_. If people wrote some of it, all of it counts:
  // the normalization may have moved the parts.
  void encode_between(std::string_view text, bool at_start, const WrittenParts* written,
                      std::vector<TokenId>& ids) const {
    const std::string normalized = parts_.normalizer.apply(text);
    const TextRange all[] = {{0, normalized.size()}};
    const auto parts = written == nullptr
                           ? normal_.split(normalized)
                           : normal_.split(normalized, {.ranges = all, .also = written->also});
    for (const AddedTokens::Part& part : parts) {
      if (part.id) {
        ids.push_back(*part.id);
      } else {
        encode_words(part.text, at_start && part.text.data() == normalized.data(), ids);
      }
    }
  }

  void encode_words(std::string_view text, bool at_start, std::vector<TokenId>& ids) const {
    Pieces pieces{.text = std::string(text), .ends = {text.size()}, .at_start = at_start};
    for (const PreTokenizerStep& step : parts_.pre_tokenizer) step(pieces);
    size_t begin = 0;
    for (const size_t end : pieces.ends) {
      parts_.bpe->encode(std::string_view(pieces.text).substr(begin, end - begin), ids);
      begin = end;
    }
  }

  BpeParts parts_;
  AddedTokens plain_, normal_;           // searched before and after the normalization
  std::vector<std::string> bytes_ = {};  // by id
  std::vector<bool> is_byte_ = {};       // by id
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts) {
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace pagedinfer
