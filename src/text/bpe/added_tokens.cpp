#include "text/bpe/added_tokens.h"

#include <algorithm>

#include "core/utf8.h"
#include "text/unicode/unicode_classes.h"
#include "text/unicode/utf8.h"

namespace pagedinfer {
namespace {

// A character of a word by Unicode's rules for regular expressions: alphabetic (the last ranges are
// enclosed letters), marks, digits, connectors, joiners.
constexpr std::string_view kWordCharacter =
    "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\xE2\x80\x8C\xE2\x80\x8D"
    "\xE2\x92\xB6-\xE2\x93\xA9\xF0\x9F\x84\xB0-\xF0\x9F\x85\x89"
    "\xF0\x9F\x85\x90-\xF0\x9F\x85\xA9\xF0\x9F\x85\xB0-\xF0\x9F\x86\x89]";

// The offset of the white space at the end of `text`.
size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = character_begin(text, end);
    if (!is_white_space(utf8_character(text.substr(begin, end - begin)))) break;
    end = begin;
  }
  return end;
}

size_t leading_space(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t size = utf8_size(text[begin]);
    if (!is_white_space(utf8_character(text.substr(begin, size)))) break;
    begin += size;
  }
  return begin;
}

// Whether a chat template steers with the token: white space is text wherever it stands.
bool is_control(const AddedToken& token, std::string_view template_text) {
  return token.special || (leading_space(token.content) < token.content.size() &&
                           template_text.find(token.content) != std::string_view::npos);
}

std::vector<std::string> contents_of(const std::vector<AddedToken>& tokens) {
  std::vector<std::string> contents;
  for (const AddedToken& token : tokens) contents.push_back(token.content);
  return contents;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : AddedTokens(tokens, contents_of(tokens)) {}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& contents)
    : tokens_(std::move(tokens)), ends_(1), begins_(256, false) {
  for (size_t i = 0; i < tokens_.size(); ++i) add(i, contents[i]);
  const auto single = [](const AddedToken& token) { return token.single_word; };
  if (std::ranges::any_of(tokens_, single)) word_ = std::make_unique<Regex>(kWordCharacter);
}

void AddedTokens::add(size_t token, std::string_view content) {
  begins_[static_cast<unsigned char>(content.front())] = true;
  uint32_t node = 0;
  for (const char c : content) {
    const uint64_t edge = uint64_t{node} << 8 | static_cast<unsigned char>(c);
    const auto [place, added] = edges_.try_emplace(edge, static_cast<uint32_t>(ends_.size()));
    if (added) ends_.emplace_back();
    node = place->second;
  }
  if (!ends_[node]) ends_[node] = token;
}

std::optional<AddedTokens::Found> AddedTokens::longest_at(std::string_view text) const {
  std::optional<Found> found;
  if (text.empty() || !begins_[static_cast<unsigned char>(text[0])]) return found;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto edge = edges_.find(uint64_t{node} << 8 | static_cast<unsigned char>(text[i]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (ends_[node]) found = Found{*ends_[node], i + 1};
  }
  return found;
}

std::optional<Tokenizer::AddedPrefix> AddedTokens::prefix(std::string_view text) const {
  const std::optional<Found> found = longest_at(text);
  if (!found) return std::nullopt;
  return Tokenizer::AddedPrefix{tokens_[found->token].id, found->size};
}

bool AddedTokens::inside_word(std::string_view text, size_t begin, size_t end) const {
  RegexScan scan(*word_);
  const auto is_word = [&](std::string_view character) {
    scan.start(character);
    return scan.next().has_value();
  };
  const size_t before = begin > 0 ? character_begin(text, begin) : 0;
  return (begin > 0 && is_word(text.substr(before, begin - before))) ||
         (end < text.size() && is_word(text.substr(end, utf8_size(text[end]))));
}

// Whether what people wrote spells a control token there, which is text.
bool AddedTokens::is_passed(const Found& found, size_t begin, const WrittenParts& written) const {
  return written.hold(begin, begin + found.size) && is_control(tokens_[found.token], written.also);
}

std::vector<size_t> AddedTokens::places_of_controls(std::string_view text,
                                                    const WrittenParts& written) const {
  std::vector<size_t> places;
  if (tokens_.empty() || written.ranges.empty()) return places;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::optional<Found> found = longest_at(text.substr(i));
    if (found && is_passed(*found, i, written)) places.push_back(i);
  }
  return places;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text,
                                                  const WrittenParts& written) const {
  std::vector<Part> parts;
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const std::optional<Found> found = longest_at(text.substr(i));
    if (!found || is_passed(*found, i, written)) {
      ++i;
      continue;
    }
    const AddedToken& token = tokens_[found->token];
    size_t begin = i, end = i + found->size;
    i = end;
    if (token.single_word && inside_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(trailing_space(text.substr(0, begin)), done);
    if (token.rstrip) end += leading_space(text.substr(end));
    if (begin >= end) continue;  // the token before it has included it
    if (done < begin) parts.push_back({std::nullopt, text.substr(done, begin - done)});
    parts.push_back({token.id, text.substr(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) parts.push_back({std::nullopt, text.substr(done)});
  return parts;
}

}  // namespace pagedinfer
