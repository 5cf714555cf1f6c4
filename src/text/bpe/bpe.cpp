#include "text/bpe/bpe.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/bpe/token_text.h"
#include "text/unicode/utf8.h"

namespace pagedinfer {
namespace {

constexpr size_t kCacheEntries = size_t{1} << 15;  // of 64 bytes

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, MergeTable merges, const BpeOptions& options)
    : vocabulary_(vocabulary),
      is_of_model_(static_cast<size_t>(vocabulary.num_ids())),
      merges_(std::move(merges)),
      options_(options),
      cache_(std::make_unique<WordCache>(kCacheEntries)) {
  for (TokenId id = 0; id < vocabulary.num_ids(); ++id) {
    is_of_model_[static_cast<size_t>(id)] = vocabulary.has(id);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelt = options.byte_level
                                  ? byte_level_letters(std::string(1, static_cast<char>(byte)))
                                  : fmt::format("<0x{:02X}>", byte);
    byte_tokens_[static_cast<size_t>(byte)] = vocabulary.find(spelt).value_or(-1);
  }
  for (int c = 0; c < 128; ++c) {
    const std::string spelt(1, static_cast<char>(c));
    ascii_tokens_[static_cast<size_t>(c)] = vocabulary.find(spelt).value_or(-1);
  }
}

std::optional<TokenId> Bpe::find(std::string_view spelt) const {
  const auto id = vocabulary_.find(spelt);
  if (!id || static_cast<size_t>(*id) >= is_of_model_.size()) return std::nullopt;
  if (!is_of_model_[static_cast<size_t>(*id)]) return std::nullopt;
  return id;
}

bool Bpe::append_bytes_of(std::string_view character, Symbols& symbols) const {
  const auto token_of = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
  if (std::ranges::any_of(character, [&](char c) { return token_of(c) < 0; })) return false;
  for (const char c : character) symbols.push_back(token_of(c));
  return true;
}

void Bpe::first_symbols(std::string_view word, Symbols& symbols) const {
  bool unknown = false;  // an unknown token is to be appended before the next known one
  const auto flush = [&] {
    if (unknown) symbols.push_back(*options_.unk);
    unknown = false;
  };
  for (size_t i = 0, size = 1; i < word.size(); i += size) {
    const auto first = static_cast<unsigned char>(word[i]);
    size = options_.byte_level ? 1 : utf8_size(word[i]);
    const std::string_view character = word.substr(i, size);
    TokenId id = options_.byte_level ? byte_tokens_[first]
                 : first < 0x80      ? ascii_tokens_[first]
                                     : find(character).value_or(-1);
    if (id >= 0) {
      flush();
      symbols.push_back(id);
      continue;
    }
    // The reference appends a pending unknown token behind these bytes, not before them.
    if (options_.byte_fallback && append_bytes_of(character, symbols)) continue;
    if (!options_.unk) continue;
    if (!options_.fuse_unk) flush();
    unknown = true;
  }
  flush();
}

void Bpe::encode(std::string_view word, std::vector<TokenId>& ids) const {
  if (cache_->find(word, ids)) return;
  if (options_.ignore_merges) {
    const auto whole = find(options_.byte_level ? byte_level_letters(word) : std::string(word));
    if (whole) {
      ids.push_back(*whole);
      cache_->put(word, {&*whole, 1});
      return;
    }
  }
  Symbols symbols;
  symbols.reserve(word.size());
  first_symbols(word, symbols);
  merge_word(merges_, symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  cache_->put(word, symbols);
}

}  // namespace pagedinfer
