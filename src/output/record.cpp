#include "output/record.h"

#include <simdjson.h>

#include <cmath>
#include <string_view>

#include "core/json.h"

namespace pagedinfer {
namespace {

std::string_view id_of(const RecordHead& head) {
  return head.id_json.empty() ? std::string_view("null") : head.id_json;
}

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kError: break;
  }
  return "error";
}

const char* reason_of(const CompletionChoice& choice) {
  const bool calls = choice.reason == FinishReason::kStop && !choice.tool_calls.empty();
  return calls ? "tool_calls" : name_of(choice.reason);
}

void write_tool_calls(JsonWriter& json, const std::vector<ToolCall>& calls) {
  if (calls.empty()) return;
  json.key("tool_calls").begin_array();
  for (const ToolCall& call : calls) {
    json.begin_object().field("id", call.id).field("type", "function").key("function");
    json.begin_object().field("name", call.name).field("arguments", call.arguments);
    json.end_object().end_object();
  }
  json.end_array();
}

void write_kept(JsonWriter& json, const RecordHead& head) {
  if (!head.kept.empty()) json.key("input").raw(head.kept);
}

void write_error(JsonWriter& json, const RequestError& error) {
  json.key("error").begin_object().field("code", error.code.name()).field("message", error.message);
  if (error.text) json.field("text", *error.text);
  json.end_object();
}

void write_tokens(JsonWriter& json, const std::vector<TokenId>& tokens) {
  json.begin_array();
  for (const TokenId token : tokens) json.value(token);
  json.end_array();
}

// One list of ids, or a list of such lists if there are several choices.
void write_token_ids(JsonWriter& json, const std::vector<CompletionChoice>& choices) {
  json.key("token_ids");
  if (choices.size() > 1) json.begin_array();
  for (const CompletionChoice& choice : choices) write_tokens(json, choice.tokens);
  if (choices.size() > 1) json.end_array();
}

// As write_token_ids(), for the scores of a beam search.
void write_scores(JsonWriter& json, const std::vector<CompletionChoice>& choices) {
  if (!choices.front().score) return;
  json.key("score");
  if (choices.size() > 1) json.begin_array();
  for (const CompletionChoice& choice : choices) json.value(static_cast<float>(*choice.score));
  if (choices.size() > 1) json.end_array();
}

// Times, which vary from run to run.
void write_timing(JsonWriter& json, const Completion& completion) {
  const RequestTiming& timing = completion.timing;
  // To microseconds, as in the statistics.
  const auto ms = [&](double end) {
    return std::round((end - completion.head.arrived) * 1e6) / 1e3;
  };
  json.key("timing").begin_object();
  json.field("queue_ms", ms(timing.admitted)).field("ttft_ms", ms(timing.first_token));
  json.field("e2e_ms", ms(timing.finished));
  json.field("cached_tokens", completion.num_cached_tokens).end_object();
}

// The fields of an only choice are fields of the record.
void write_plain_choices(JsonWriter& json, const Completion& completion,
                         const RecordOptions& options) {
  const bool several = completion.choices.size() > 1;
  if (several) json.key("choices").begin_array();
  int index = 0;
  for (const CompletionChoice& choice : completion.choices) {
    if (several) json.begin_object().field("index", index++);
    json.field("text", choice.text);
    write_tool_calls(json, choice.tool_calls);
    if (options.token_ids) write_tokens(json.key("token_ids"), choice.tokens);
    if (choice.log_probs) {
      write_log_probs(json.key("logprobs"), *choice.log_probs, options.token_label);
    }
    if (choice.score) json.field("score", static_cast<float>(*choice.score));
    json.field("finish_reason", reason_of(choice));
    if (several) json.end_object();
  }
  if (several) json.end_array();
}

// If there are several prompts, a list with an item for each.
void write_prompt_log_probs(JsonWriter& json, const Completion& completion,
                            const RecordOptions& options) {
  const auto& prompts = completion.prompt_log_probs;
  if (prompts.empty()) return;
  json.key("prompt_logprobs");
  if (prompts.size() > 1) json.begin_array();
  for (const auto& tokens : prompts) write_log_probs(json, tokens, options.token_label);
  if (prompts.size() > 1) json.end_array();
}

void write_plain(JsonWriter& json, const Completion& completion, const RecordOptions& options) {
  json.begin_object().key("id").raw(id_of(completion.head)).field("index", completion.head.index);
  write_kept(json, completion.head);
  if (completion.failed()) {
    json.field("line", completion.head.line);
    write_error(json, completion.error);
  } else {
    write_plain_choices(json, completion, options);
    write_prompt_log_probs(json, completion, options);
    json.field("prompt_tokens", completion.num_prompt_tokens);
    json.field("completion_tokens", completion.num_completion_tokens);
    if (options.timing) write_timing(json, completion);
  }
  json.end_object();
}

void write_openai_choice(JsonWriter& json, const CompletionChoice& choice, int index, bool chat,
                         const TokenLabels& token_label) {
  json.begin_object().field("index", index);
  if (chat) {
    json.key("message").begin_object().field("role", "assistant");
    if (choice.tool_calls.empty()) {
      json.field("content", choice.text);
    } else if (choice.content.empty()) {
      json.field("content", nullptr);
    } else {
      json.field("content", choice.content);
    }
    json.field("refusal", nullptr);
    write_tool_calls(json, choice.tool_calls);
    json.end_object();
  } else {
    json.field("text", choice.text);
  }
  json.key("logprobs");
  if (!choice.log_probs) {
    json.value(nullptr);
  } else if (chat) {
    write_chat_log_probs(json, *choice.log_probs, token_label);
  } else {
    write_log_probs(json, *choice.log_probs, token_label);
  }
  json.field("finish_reason", reason_of(choice)).end_object();
}

// Exactly the fields of OpenAI's response.
void write_openai_body(JsonWriter& json, const Completion& completion,
                       const RecordOptions& options) {
  const bool chat = completion.head.form == RecordForm::kOpenAiChat;
  const std::string id = std::to_string(completion.head.index);
  json.begin_object().field("id", (chat ? "chatcmpl-" : "cmpl-") + id);
  json.field("object", chat ? "chat.completion" : "text_completion").field("created", 0);
  json.field("model", options.model_name).key("choices").begin_array();
  int index = 0;
  for (const CompletionChoice& choice : completion.choices) {
    write_openai_choice(json, choice, index++, chat, options.token_label);
  }
  json.end_array();
  const int64_t num_prompt = completion.num_prompt_tokens;
  const int64_t num_tokens = completion.num_completion_tokens;
  json.key("usage").begin_object().field("prompt_tokens", num_prompt);
  json.field("completion_tokens", num_tokens).field("total_tokens", num_prompt + num_tokens);
  if (options.timing) {
    json.key("prompt_tokens_details").begin_object();
    json.field("cached_tokens", completion.num_cached_tokens).end_object();
  }
  json.end_object().end_object();
}

void write_openai(JsonWriter& json, const Completion& completion, const RecordOptions& options) {
  const RecordHead& head = completion.head;
  const std::string index = std::to_string(head.index);
  json.begin_object().field("id", "batch_req_" + index).key("custom_id").raw(id_of(head));
  json.field("index", head.index);
  write_kept(json, head);
  if (completion.failed()) {
    json.field("line", head.line).field("response", nullptr);
    write_error(json, completion.error);
  } else {
    json.key("response").begin_object().field("status_code", 200);
    json.field("request_id", "req_" + index).key("body");
    write_openai_body(json, completion, options);
    json.end_object().field("error", nullptr);
    if (options.token_ids) write_token_ids(json, completion.choices);
    write_scores(json, completion.choices);
    write_prompt_log_probs(json, completion, options);
    if (options.timing) write_timing(json, completion);
  }
  json.end_object();
}

// As StoredRecord::num_tokens.
std::optional<int64_t> num_tokens_of(simdjson::dom::object record) {
  simdjson::dom::object usage;
  if (record["response"]["body"]["usage"].get(usage) != simdjson::SUCCESS) usage = record;
  simdjson::dom::element ignored;
  const bool is_search = record["score"].get(ignored) == simdjson::SUCCESS ||
                         record["choices"].at(0)["score"].get(ignored) == simdjson::SUCCESS;
  int64_t num_prompt = 0, num_drawn = 0;
  if (is_search || usage["prompt_tokens"].get(num_prompt) != simdjson::SUCCESS ||
      usage["completion_tokens"].get(num_drawn) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  return num_prompt + num_drawn;
}

}  // namespace

void append_record(std::string& out, const Completion& completion, const RecordOptions& options) {
  JsonWriter json(out);
  if (completion.head.form == RecordForm::kPlain) {
    write_plain(json, completion, options);
  } else {
    write_openai(json, completion, options);
  }
  out += '\n';
}

class RecordParser::Impl : public simdjson::dom::parser {};

RecordParser::RecordParser() : impl_(std::make_unique<Impl>()) {}
RecordParser::~RecordParser() = default;

std::optional<StoredRecord> RecordParser::parse(std::string_view line) {
  simdjson::dom::object object;
  simdjson::dom::element error;
  StoredRecord record;
  if (impl_->parse(line.data(), line.size()).get(object) != simdjson::SUCCESS ||
      object["index"].get(record.index) != simdjson::SUCCESS || record.index < 0) {
    return std::nullopt;
  }
  record.failed = object["error"].get(error) == simdjson::SUCCESS && !error.is_null();
  record.num_tokens = num_tokens_of(object);
  return record;
}

}  // namespace pagedinfer
