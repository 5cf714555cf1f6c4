// Reads the values of one line's keys into a request. Used by RequestParser only.
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

// How messages show texts and values: the first 60 bytes of a text (whole characters), the same as
// a JSON string, and a value of any type.
std::string_view shorten(std::string_view text);
std::string quote(std::string_view text);
std::string describe(simdjson::dom::element value);

// The keys that may hold the prompt: any of them in a plain line; `prompt`, which may be a list, in
// the body of /v1/completions; `messages` in the body of /v1/chat/completions.
enum class PromptForm : uint8_t { kPlain, kCompletion, kChat };

// The known keys of an object and their values; of a repeated key the last value counts. Keeps the
// first error; after it nothing more is read.
class RequestFields {
 public:
  // Messages put `where` ("" or "body.") before the names of keys. `prompt_name` is the key that
  // counts as "prompt".
  explicit RequestFields(std::string_view where, std::string_view prompt_name = "prompt")
      : where_(where), prompt_name_(prompt_name) {}

  // The number of the key `name`, or -1 if it is unknown.
  int find(std::string_view name) const;
  // The name of a key in this object.
  std::string_view name_of(int key) const;

  void set(int key, simdjson::dom::element value) { values_[static_cast<size_t>(key)] = value; }
  // Whether the key has a value other than null.
  bool has(int key) const;
  // Whether the value of the key is the string `text`.
  bool says(int key, std::string_view text) const;
  simdjson::dom::element at(int key) const { return *values_[static_cast<size_t>(key)]; }

  // Each sets the error unless there is one. The first one says that the value of `key`, or its
  // absence, is not what was expected.
  void refuse(int key, std::string_view expected);
  void refuse(const RequestError& error);
  void refuse(const char* code, std::string message);
  bool failed() const { return !error_.code.empty(); }
  const RequestError& error() const { return error_; }

  // Refuses keys whose values ask for what this version cannot do.
  void check_supported();
  // The JSON text of a string or an integer; "" if the key is absent.
  std::string read_id(int key);
  void read_prompt(RequestDraft& draft, PromptForm form);
  // The unknown keys within messages.
  const std::vector<std::string_view>& unknown_keys() const { return unknown_keys_; }
  // Changes only the settings that the line gives.
  void read_sampling(SamplingParams& sampling, PromptForm form);

 private:
  // Sets the error: `wrong`, which is `value` or stands in it, is not what was expected.
  void refuse_part(int key, simdjson::dom::element value, simdjson::dom::element wrong,
                   std::string_view expected);
  bool asks(int key) const { return has(key) && !failed(); }  // whether to read the key
  void read_words(RequestDraft& draft, bool may_be_list);
  void read_prompts(simdjson::dom::array list, RequestDraft& draft);
  void read_chat(Chat& chat);
  void read_message(simdjson::dom::element value, const std::string& path, ChatMessage& message);
  void read_content(simdjson::dom::element value, const std::string& path, ChatMessage& message);
  void read_template_settings(Chat& chat);
  void read_truncation(std::optional<int>& result);
  void read_setting(const Setting& setting, int key, SamplingParams& sampling);
  void read_max_completion_tokens(SamplingParams& sampling);
  void read_beams(BeamSettings& beams);
  void keep_to_beams(SamplingParams& sampling);
  void read_log_probs(int& count, PromptForm form);
  void read_count(int key, int& count);
  void read_flag(int key, bool& result);
  void read_token_ids(int key, simdjson::dom::element value, std::vector<TokenId>& result);
  void read_logit_bias(std::vector<TokenBias>& result);

  std::string_view where_, prompt_name_;
  std::array<std::optional<simdjson::dom::element>, kNumKeys> values_ = {};
  bool may_draw_nothing_ = false;  // max_tokens may be 0
  RequestError error_ = {};
  std::vector<std::string_view> unknown_keys_ = {};
};

}  // namespace pagedinfer
