#include "request/request_parser.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <utility>

#include "core/json.h"
#include "core/refusal.h"
#include "io/line_reader.h"
#include "request/kept_keys.h"
#include "request/line_arrivals.h"
#include "request/line_fields.h"
#include "request/line_json.h"
#include "request/request_fields.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

static_assert(kLinePadding >= static_cast<int64_t>(simdjson::SIMDJSON_PADDING));

constexpr size_t kMaxUnknownKeys = 100;

// The error that simdjson's portable implementation reports. Its implementations report different
// errors for a line with several, and an error record must not depend on the processor.
simdjson::error_code portable_error(std::string_view text) {
  const auto* const portable = simdjson::get_available_implementations()["fallback"];
  std::unique_ptr<simdjson::internal::dom_parser_implementation> parser;
  dom::document document;
  if (portable == nullptr) return simdjson::TAPE_ERROR;
  const auto error =
      portable->create_dom_parser_implementation(text.size(), simdjson::DEFAULT_MAX_DEPTH, parser);
  if (error != simdjson::SUCCESS) return error;
  if (document.allocate(text.size()) != simdjson::SUCCESS) return simdjson::MEMALLOC;
  return parser->parse(reinterpret_cast<const uint8_t*>(text.data()), text.size(), document);
}

RequestError json_error(std::string_view text) {
  if (!simdjson::validate_utf8(text.data(), text.size())) return utf8_error(text);
  switch (portable_error(text)) {
    case simdjson::MEMALLOC:
    case simdjson::CAPACITY:
      return {"line_too_long", fmt::format("there is no memory to read {} bytes", text.size())};
    case simdjson::DEPTH_ERROR: return {"invalid_json", "nested deeper than 1024 levels"};
    case simdjson::NUMBER_ERROR:
      return {"invalid_json", "a number is malformed or beyond what 64 bits or a double hold"};
    case simdjson::STRING_ERROR:
      return {"invalid_json", "a string has a bad escape or a lone surrogate"};
    case simdjson::UNESCAPED_CHARS:
      return {"invalid_json", "a string has a control character that is not escaped"};
    case simdjson::UNCLOSED_STRING: return {"invalid_json", "a string has no end"};
    default: return {"invalid_json", "the line is not JSON"};
  }
}

// The known key that `name` resembles, as this object calls it; "" if there is none.
std::string similar_to(std::string_view name, const RequestFields& fields) {
  for (const int renamed : {key("prompt"), key("id")}) {
    const std::string_view ours = fields.name_of(renamed);
    if (is_near_key(name, ours)) return std::string(ours);
  }
  const std::string_view similar = find_similar_key(name);
  return similar == "prompt" ? "" : std::string(similar);
}

// What helps a user whose prompt has another key: the first keys of the object that lacks it, and
// of a plain line the first whose value can be a prompt.
std::string about_keys(dom::object line, bool is_batch) {
  dom::object object = line;
  if (is_batch) std::ignore = line["body"].get(object);
  constexpr size_t kMaxShown = 5;
  std::string keys, prompt;
  for (const auto [name, value] : object) {
    if (prompt.empty() && value.is_string() && find_key(name) < 0) prompt = shortened(name);
  }
  size_t num_shown = 0;
  for (const auto [name, value] : object) {
    if (++num_shown > kMaxShown) break;
    keys += fmt::format("{}{}", keys.empty() ? "" : ", ", shortened(name));
  }
  if (keys.empty()) return "";
  const std::string more = object.size() > kMaxShown ? ", ..." : "";
  const bool may_rename = !is_batch && !prompt.empty();
  const std::string flag = may_rename ? fmt::format("; --prompt-field {}?", prompt) : "";
  return fmt::format("; the {} has {}{}{}", is_batch ? "body" : "line", keys, more, flag);
}

void add_key(RequestParser::UnknownKeys& keys, std::string_view name, int64_t count) {
  auto found = keys.find(name);
  if (found == keys.end()) {
    const bool full = keys.size() >= kMaxUnknownKeys;
    found = keys.try_emplace(std::string(full ? "(other keys)" : name)).first;
  }
  found->second += count;
}

}  // namespace

class RequestParser::Impl {
 public:
  Impl(SamplingParams defaults, LineRules rules)
      : defaults_(std::move(defaults)), rules_(std::move(rules)) {}

  ParsedLine parse(std::string_view text, int64_t index, int64_t line);
  UnknownKeys& unknown_keys() { return unknown_keys_; }

 private:
  void collect(dom::object object, RequestFields& fields);
  static void read_row(RequestFields& fields, std::string_view text, RequestDraft& draft);
  void read_plain(RequestFields& fields, RequestDraft& draft);
  void read_batch(RequestFields& fields, RequestDraft& draft);
  void read_request(RequestFields& fields, RequestDraft& draft, PromptForm form);
  // Counts as unknown the known keys whose kind is not read in this object.
  template <class IsRead>
  void count_unread(const RequestFields& fields, const IsRead& is_read);
  void count_unknown(std::string_view name, std::string similar = {});
  void refuse_unknown(RequestFields& fields);

  const SamplingParams defaults_;
  const LineRules rules_;
  LineJson json_;
  UnknownKeys unknown_keys_;
  // State of the current line.
  std::vector<KeyHint> hints_;
  std::string first_unknown_;  // the message about the first unknown key; "" = none
};

bool may_stand_for(std::string_view key, std::string_view name) {
  const int known = find_key(name);
  if (name.empty()) return false;
  if (known < 0 || name == key) return true;
  const KeyKind kind = kKeys[static_cast<size_t>(known)].kind;
  return kind != KeyKind::kRequest && kind != KeyKind::kLine && kind != KeyKind::kBatch;
}

LineRules line_rules(const Config& config) {
  return {.names = {config.prompt_field, config.id_field},
          .strict = config.strict,
          .rows = config.prompt_template || !config.message_template.empty(),
          .keep = parse_kept_keys(config.keep)};
}

RequestParser::RequestParser(SamplingParams defaults, LineRules rules)
    : impl_(std::make_unique<Impl>(std::move(defaults), std::move(rules))) {}

RequestParser::~RequestParser() = default;

ParsedLine RequestParser::parse(std::string_view text, int64_t index, int64_t line) {
  return impl_->parse(text, index, line);
}

ParsedLine RequestParser::parse(const InputLine& line) {
  if (line.error.code.empty()) return parse(line.text, line.index, line.number);
  return {.request = {.head = {.index = line.index, .line = line.number}}, .error = line.error};
}

RequestParser::UnknownKeys RequestParser::take_unknown_keys() {
  return std::exchange(impl_->unknown_keys(), {});
}

void RequestParser::add(UnknownKeys& keys, const UnknownKeys& later) {
  for (const auto& [name, count] : later) add_key(keys, name, count);
}

ParsedLine RequestParser::Impl::parse(std::string_view text, int64_t index, int64_t line) {
  ParsedLine result;
  RequestDraft& draft = result.request;
  draft.head.index = index;
  draft.head.line = line;
  if (static_cast<int64_t>(text.size()) > kMaxLineBytes) {
    const auto message = fmt::format("the line is longer than {} bytes", kMaxLineBytes);
    result.error = {"line_too_long", message};
    return result;
  }

  dom::element root;
  dom::object object;
  const auto error = json_.parse(text).get(root);
  if (error != simdjson::SUCCESS) {
    result.error = json_error(text);
  } else if (root.get(object) != simdjson::SUCCESS) {
    result.error = {"not_an_object", fmt::format("found {}, expected an object", describe(root))};
  } else {
    draft.sampling = defaults_;
    draft.head.kept = kept_members(text, object, rules_.keep);
    first_unknown_.clear();
    RequestFields fields("", rules_.names);
    collect(object, fields);
    if (fields.has(key("arrival_s")) && !read_arrival(fields.at(key("arrival_s")))) {
      fields.refuse(key("arrival_s"), "a number of seconds from 0");
    }
    const bool is_batch =
        fields.has(key("custom_id")) || (fields.has(key("url")) && fields.has(key("body")));
    if (rules_.rows) {
      read_row(fields, text, draft);
    } else {
      is_batch ? read_batch(fields, draft) : read_plain(fields, draft);
    }
    result.error = fields.error();
    if (result.error.code == "missing_prompt") {
      result.error.message += about_keys(object, is_batch);
    }
    result.hints = std::exchange(hints_, {});
  }
  json_.done(text);
  return result;
}

void RequestParser::Impl::collect(dom::object object, RequestFields& fields) {
  for (const auto [name, value] : object) {
    const int known = fields.find(name);
    if (rules_.rows) {
      if (known == key("id") || known == key("arrival_s")) fields.set(known, value);
      continue;
    }
    const bool is_settings =
        known >= 0 && kKeys[static_cast<size_t>(known)].kind == KeyKind::kSettingsObject;
    if (known >= 0 && (!is_settings || value.is_object() || value.is_null())) {
      fields.set(known, value);
    } else {
      count_unknown(name, similar_to(name, fields));
    }
  }
}

// What is spelled in a row is text: the template's own special tokens are live.
void RequestParser::Impl::read_row(RequestFields& fields, std::string_view text,
                                   RequestDraft& draft) {
  draft.row.emplace(text);
  draft.escape_special = true;
  constexpr int kId = key("id");
  if (!fields.has(kId)) return;
  const dom::element id = fields.at(kId);
  if (id.is_string() || id.is_int64() || id.is_uint64()) draft.head.id_json = fields.read_id(kId);
}

void RequestParser::Impl::read_plain(RequestFields& fields, RequestDraft& draft) {
  draft.head.id_json = fields.read_id(key("id"));
  count_unread(fields,
               [](KeyKind kind) { return kind != KeyKind::kBatch && kind != KeyKind::kIgnored; });
  read_request(fields, draft, PromptForm::kPlain);
}

void RequestParser::Impl::read_request(RequestFields& fields, RequestDraft& draft,
                                       PromptForm form) {
  refuse_unknown(fields);
  check_supported(fields);
  read_prompt(fields, draft, form);
  read_sampling(fields, draft, form);
  for (const std::string_view name : fields.unknown_keys()) count_unknown(name);
  refuse_unknown(fields);
}

void RequestParser::Impl::read_batch(RequestFields& fields, RequestDraft& draft) {
  const bool chat = fields.says(key("url"), "/v1/chat/completions");
  draft.head.form = chat ? RecordForm::kOpenAiChat : RecordForm::kOpenAiCompletion;
  draft.head.id_json = fields.read_id(key("custom_id"));
  count_unread(fields, [](KeyKind kind) {
    return kind == KeyKind::kLine || kind == KeyKind::kBatch || kind == KeyKind::kNoEffect;
  });
  refuse_unknown(fields);
  if (fields.has(key("method")) && !fields.says(key("method"), "POST")) {
    fields.refuse(key("method"), "\"POST\"");
  }
  if (!chat && !fields.says(key("url"), "/v1/completions")) {
    fields.refuse(key("url"), "\"/v1/completions\" or \"/v1/chat/completions\"");
  }

  dom::object object;
  if (!fields.has(key("body")) || fields.at(key("body")).get(object) != simdjson::SUCCESS) {
    return fields.refuse(key("body"), "an object");
  }
  if (fields.failed()) return;
  RequestFields body("body.");
  collect(object, body);
  count_unread(body, [](KeyKind kind) { return kind != KeyKind::kBatch; });
  refuse_unknown(body);
  if (body.has(key("arrival_s"))) body.refuse(key("arrival_s"), "it beside custom_id instead");
  read_request(body, draft, chat ? PromptForm::kChat : PromptForm::kCompletion);
  fields.refuse(body.error());
}

template <class IsRead>
void RequestParser::Impl::count_unread(const RequestFields& fields, const IsRead& is_read) {
  for (int number = 0; number < kNumKeys; ++number) {
    const auto& [name, kind, instead, neutral] = kKeys[static_cast<size_t>(number)];
    if (!fields.has(number) || is_read(kind)) continue;
    // A request's key is unread only on the outer level of a line of the OpenAI form.
    const bool misplaced = kind == KeyKind::kRequest && number != key("id");
    count_unknown(fields.name_of(number), misplaced ? fmt::format("body.{}", name) : "");
  }
}

void RequestParser::Impl::count_unknown(std::string_view name, std::string similar) {
  add_key(unknown_keys_, shorten(name), 1);
  if (rules_.strict && first_unknown_.empty()) {
    first_unknown_ = fmt::format("{}: unknown key", quote(name));
    if (!similar.empty()) first_unknown_ += fmt::format("; did you mean {}?", similar);
  }
  if (!similar.empty()) hints_.push_back({std::string(shorten(name)), std::move(similar)});
}

void RequestParser::Impl::refuse_unknown(RequestFields& fields) {
  if (!first_unknown_.empty()) fields.refuse("unknown_key", first_unknown_);
}

}  // namespace pagedinfer
