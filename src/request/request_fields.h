#pragma once

#include <simdjson.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/request.h"
#include "request/request_keys.h"
#include "request/request_parser.h"

namespace pagedinfer {

// Texts and values as messages show them: the first 60 bytes of a text, cut between characters; the
// same as a JSON string; a value of any type.
std::string_view shorten(std::string_view text);
std::string quote(std::string_view text);
std::string describe(simdjson::dom::element value);

// The keys that may hold the prompt. kPlain: any of them. kCompletion, the body of /v1/completions:
// `prompt`, which may be a list. kChat, the body of /v1/chat/completions: `messages`.
enum class PromptForm : uint8_t { kPlain, kCompletion, kChat };

// The known keys of an object and their values. If a key is repeated, its last value counts. Keeps
// the first error and reads nothing after it. Knows the types of values, but not the meaning of
// keys.
class RequestFields {
 public:
  // Messages put `where` ("" or "body.") before the names of keys. The keys of `names`, which
  // outlive the fields, count as "prompt" and "id".
  explicit RequestFields(std::string_view where, const KeyNames& names = kUsualNames)
      : where_(where), names_(names) {}

  // The number of the key `name`, or -1 if it is unknown.
  int find(std::string_view name) const;
  std::string_view where() const { return where_; }
  // The name of a key in this object, and the same with `where` before it.
  std::string_view name_of(int key) const;
  std::string path_of(int key) const;

  void set(int key, simdjson::dom::element value) { values_[static_cast<size_t>(key)] = value; }
  // Whether the key has a value other than null.
  bool has(int key) const;
  // Whether to read the key: it has a value, and there is no error.
  bool asks(int key) const { return has(key) && !failed(); }
  // Whether the value of the key is the string `text`.
  bool says(int key, std::string_view text) const;
  simdjson::dom::element at(int key) const { return *values_[static_cast<size_t>(key)]; }

  // Reads the value of `key`. If it has another type, refuses it and returns false. REQUIRES:
  // has(key)
  template <class T>
  [[nodiscard]] bool get(int key, T& result, std::string_view expected) {
    if (at(key).get(result) == simdjson::SUCCESS) return true;
    refuse(key, expected);
    return false;
  }

  // Each function below sets the error unless there is one already. The value of `key`, or its
  // absence, is not what was expected:
  void refuse(int key, std::string_view expected);
  // `wrong`, which is the value of `key` or a part of it, is not what was expected:
  void refuse_part(int key, simdjson::dom::element value, simdjson::dom::element wrong,
                   std::string_view expected);
  // What was found at `path` is not what was expected:
  void refuse_found(std::string_view path, std::string_view found, std::string_view expected);
  // The value at `path` is not what was expected, or is not supported by this version:
  void refuse_value(std::string_view path, simdjson::dom::element value, std::string_view expected);
  void refuse_unsupported(std::string_view path, simdjson::dom::element value);
  void refuse(const RequestError& error);
  void refuse(ErrorCode code, std::string message);
  bool failed() const { return !error_.code.empty(); }
  const RequestError& error() const { return error_; }

  // The JSON text of a string or an integer; "" if the key is absent.
  std::string read_id(int key);
  // Changes the result only if the key has a value.
  void read_flag(int key, bool& result);
  // Reads a number of candidates. false asks for none and changes nothing. REQUIRES: has(key)
  void read_count(int key, int& count);
  // REQUIRES: `value` is the value of `key`, or an item of a list there.
  void read_token_ids(int key, simdjson::dom::element value, std::vector<TokenId>& result);

  // The unknown keys within values.
  void add_unknown_key(std::string_view name) { unknown_keys_.push_back(name); }
  const std::vector<std::string_view>& unknown_keys() const { return unknown_keys_; }

 private:
  std::string_view where_;
  const KeyNames& names_;
  std::array<std::optional<simdjson::dom::element>, kNumKeys> values_ = {};
  RequestError error_ = {};
  std::vector<std::string_view> unknown_keys_ = {};
};

}  // namespace pagedinfer
