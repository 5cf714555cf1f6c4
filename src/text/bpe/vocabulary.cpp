#include "text/bpe/vocabulary.h"

#include <algorithm>
#include <functional>

#include "core/check.h"

namespace pagedinfer {

size_t Vocabulary::slot_of(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>()(text) & mask;
  while (slots_[slot] >= 0 && this->text(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  slots_.assign(std::max<size_t>(64, slots_.size() * 2), -1);
  for (TokenId id = 0; id < num_ids(); ++id) {
    if (has(id)) slots_[slot_of(text(id))] = id;
  }
}

Vocabulary::Added Vocabulary::add(std::string_view text, TokenId id) {
  CHECK(id >= 0 && id < kMaxIds);
  CHECK(letters_.size() + text.size() < kNone);
  if (has(id)) return Added::kIdTaken;
  if (static_cast<size_t>(num_tokens_) * 2 >= slots_.size()) grow();
  const size_t slot = slot_of(text);
  if (slots_[slot] >= 0) return Added::kTextTaken;
  if (id >= num_ids()) by_id_.resize(static_cast<size_t>(id) + 1);
  by_id_[static_cast<size_t>(id)] = {static_cast<uint32_t>(letters_.size()),
                                     static_cast<uint32_t>(text.size())};
  letters_ += text;
  slots_[slot] = id;
  ++num_tokens_;
  return Added::kYes;
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const TokenId id = slots_[slot_of(text)];
  if (id < 0) return std::nullopt;
  return id;
}

std::string_view Vocabulary::text(TokenId id) const {
  if (!has(id)) return {};
  const Place place = by_id_[static_cast<size_t>(id)];
  return std::string_view(letters_).substr(place.begin, place.size);
}

}  // namespace pagedinfer
