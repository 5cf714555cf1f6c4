#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// The tokens of a model: a one-to-one map of spellings and ids. Ids may have gaps.
class Vocabulary {
 public:
  // An upper bound of ids, so that a file cannot make us allocate all memory.
  static constexpr int kMaxIds = 1 << 24;

  enum class Added : uint8_t { kYes, kTextTaken, kIdTaken };

  // Changes nothing unless it returns kYes. REQUIRES: 0 <= id < kMaxIds.
  [[nodiscard]] Added add(std::string_view text, TokenId id);

  std::optional<TokenId> find(std::string_view text) const;
  bool has(TokenId id) const {
    return id >= 0 && id < num_ids() && by_id_[static_cast<size_t>(id)].begin != kNone;
  }
  // The spelling; empty if there is no such token. Valid until the next add().
  std::string_view text(TokenId id) const;

  int num_ids() const { return static_cast<int>(by_id_.size()); }  // ids are below it
  int num_tokens() const { return num_tokens_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Place {
    uint32_t begin = kNone;  // in letters_
    uint32_t size = 0;
  };

  size_t slot_of(std::string_view text) const;  // the slot of `text`, or a free one for it
  void grow();

  std::string letters_ = {};  // of all tokens
  std::vector<Place> by_id_ = {};
  std::vector<TokenId> slots_ = {};  // by hash, linear probing; -1 = free; at most half full
  int num_tokens_ = 0;
};

}  // namespace pagedinfer
