// The values of one line's keys, turned into a request. For the parser's own files.
#pragma once

#include <simdjson.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/request.h"
#include "core/sampling_ranges.h"
#include "request/request_keys.h"
#include "request/request_parser.h"

namespace pagedinfer {

// The beginning of a text, short enough for a message; characters stay whole.
std::string_view shorten(std::string_view text);
// As a message quotes it.
std::string quote(std::string_view text);
std::string describe(simdjson::dom::element value);

// Where a prompt stands: in a plain line as any of its kinds, in the body of one endpoint as
// prompt, which may be a list, and in that of the other one as messages.
enum class PromptForm : uint8_t { kPlain, kCompletion, kChat };

// The known keys of an object and their values; a key that comes twice has its last value. What
// is wrong with them is kept: the first thing found counts, and nothing is read after it.
class RequestFields {
 public:
  // `where` names the object in messages: "" or "body."; `prompt_name` the key of the prompt.
  explicit RequestFields(std::string_view where, std::string_view prompt_name = "prompt")
      : where_(where), prompt_name_(prompt_name) {}

  // The number of the key that the object calls `name`, or -1 if it is unknown.
  int find(std::string_view name) const;
  // What the object calls a key.
  std::string_view name_of(int key) const;

  void set(int key, simdjson::dom::element value) { values_[static_cast<size_t>(key)] = value; }
  // Null is as good as no value.
  bool has(int key) const;
  // Whether its value is this string.
  bool says(int key, std::string_view text) const;
  simdjson::dom::element at(int key) const { return *values_[static_cast<size_t>(key)]; }

  // Notes that the value of `key`, or that there is none, is not what was expected.
  void refuse(int key, std::string_view expected);
  void refuse(const RequestError& error);
  void refuse(const char* code, std::string message);
  bool failed() const { return !error_.code.empty(); }
  const RequestError& error() const { return error_; }

  // Refuses every key that asks for what this version cannot do.
  void check_supported();
  // The JSON text of a string or an integer; "" when there is none.
  std::string read_id(int key);
  void read_prompt(RequestDraft& draft, PromptForm form);
  // The names of keys within messages that nobody knows.
  const std::vector<std::string_view>& unknown_keys() const { return unknown_keys_; }
  // Leaves what the line does not say as it is.
  void read_sampling(SamplingParams& sampling);

 private:
  bool asks(int key) const { return has(key) && !failed(); }
  void read_words(RequestDraft& draft, bool may_be_list);
  void read_chat(Chat& chat);
  void read_message(simdjson::dom::element value, const std::string& path, ChatMessage& message);
  void read_content(simdjson::dom::element value, const std::string& path, ChatMessage& message);
  void read_template_settings(Chat& chat);
  void read_truncation(std::optional<int>& result);
  void read_integer(int key, IntegerRange range, int& result);
  void read_max_completion_tokens(int& max_tokens);
  void read_number(int key, NumberRange range, float& result);
  void read_seed(uint64_t& result);
  void read_flag(int key, bool& result);
  void read_token_ids(int key, simdjson::dom::element value, std::vector<TokenId>& result);
  void read_stop(std::vector<std::string>& result);
  void read_logit_bias(std::vector<TokenBias>& result);

  std::string_view where_, prompt_name_;
  std::array<std::optional<simdjson::dom::element>, kNumKeys> values_ = {};
  RequestError error_ = {};
  std::vector<std::string_view> unknown_keys_ = {};
};

}  // namespace pagedinfer
