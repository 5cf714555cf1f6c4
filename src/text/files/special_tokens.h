#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json_file.h"
#include "text/bpe/added_tokens.h"

namespace pagedinfer {

// An added token as JSON files write it, without its id. `is_special`: whatever it says. Throws
// Error.
AddedToken read_added_token(const JsonObject& entry, bool is_special = false);

// The special tokens that a directory's files name, put together as the reference does it.
class SpecialTokens {
 public:
  // Each at most once, in this order. Throws Error.
  void read_tokenizer_config(const JsonObject& root);
  void read_special_tokens_map(const JsonObject& root);

  // With a role ("bos_token") or a name of their own ("image_token"), and those in a list, in the
  // order in which new ones get ids. Without ids.
  std::vector<AddedToken> named() const;
  std::vector<AddedToken> listed() const;
  // The spelling of one with a role; empty if there is none.
  std::string spelling(std::string_view role) const;
  // Whether a token of added_tokens.json is special. The list does not count by its older name.
  bool is_special(std::string_view content) const;

 private:
  using Name = std::pair<std::string, AddedToken>;
  static constexpr std::array<std::string_view, 7> kRoles = {
      "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

  void append_object(const JsonObject& root, std::string_view key, simdjson::dom::object names);

  std::array<std::optional<AddedToken>, kRoles.size()> roles_ = {};
  // By name. One that is in both has the place of the weak one and the token of the strong one.
  std::vector<Name> weak_ = {}, strong_ = {};
  // What stands under "extra_special_tokens" and under its older name, which counts if nothing
  // stands there.
  std::optional<std::vector<AddedToken>> list_ = {}, older_list_ = {};
};

}  // namespace pagedinfer
