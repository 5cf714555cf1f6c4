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

// Reads an added token of a JSON file, without its id. With `is_special` it is special even if the
// entry says otherwise. Throws Error.
AddedToken read_added_token(const JsonObject& entry, bool is_special = false);

// The special tokens that the files of a model directory name, merged as the reference does.
class SpecialTokens {
 public:
  // To be called at most once each, in this order. Throw Error.
  void read_tokenizer_config(const JsonObject& root);
  void read_special_tokens_map(const JsonObject& root);

  // The tokens with a role ("bos_token") or a name of their own ("image_token"), and the tokens of
  // a list, in the order in which new ones get ids. Without ids.
  std::vector<AddedToken> named() const;
  std::vector<AddedToken> listed() const;
  // The names of tokens and their spellings: the roles first.
  std::vector<std::pair<std::string, std::string>> spellings() const;
  // The spelling of the token with a role; empty if there is none.
  std::string spelling(std::string_view role) const;
  // Whether a token of added_tokens.json is special. The list does not count by its older name.
  bool is_special(std::string_view content) const;

 private:
  using Name = std::pair<std::string, AddedToken>;
  static constexpr std::array<std::string_view, 7> kRoles = {
      "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

  std::vector<Name> all_names() const;
  void append_object(const JsonObject& root, std::string_view key, simdjson::dom::object names);

  std::array<std::optional<AddedToken>, kRoles.size()> roles_ = {};
  // By name. A name in both lists has the position of the weak and the token of the strong entry.
  std::vector<Name> weak_ = {}, strong_ = {};
  // The lists under "extra_special_tokens" and under its older name, which is used if the first one
  // is absent.
  std::optional<std::vector<AddedToken>> list_ = {}, older_list_ = {};
};

}  // namespace pagedinfer
