#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/json.h"
#include "io/line_reader.h"
#include "output/record.h"
#include "request/request_keys.h"
#include "request/request_parser.h"

using namespace pagedinfer;

namespace {

using Random = std::mt19937;

template <class List>
const auto& pick(Random& random, const List& list) {
  return list[random() % std::size(list)];
}

// Parses a copy of the line in memory that ends with its padding, so that a sanitizer sees reads
// beyond.
ParsedLine parse(RequestParser& parser, std::string_view text) {
  const auto memory = std::make_unique<char[]>(text.size() + size_t{kLinePadding});
  std::copy(text.begin(), text.end(), memory.get());
  return parser.parse({memory.get(), text.size()}, 8, 9);
}

const char* const kValues[] = {"null",
                               "true",
                               "false",
                               "0",
                               "1",
                               "-1",
                               "2",
                               "0.5",
                               "-0",
                               "1e5",
                               "1E-400",
                               "1e400",
                               "1.5",
                               "2147483647",
                               "2147483648",
                               "-9223372036854775808",
                               "18446744073709551615",
                               "184467440737095516150",
                               "\"\"",
                               "\"x\"",
                               "\"none\"",
                               "\"\\u0000\"",
                               "\"\\ud83d\\ude00\"",
                               "\"\\ud83d\"",
                               "\"\xC3\xA9\"",
                               "\"\xFF\"",
                               "\"\x01\"",
                               "[]",
                               "[1]",
                               "[1,2,3]",
                               "[\"a\",\"b\"]",
                               "[[1,2]]",
                               "[null]",
                               "{}",
                               "{\"1\":2}",
                               "{\"1\":200}",
                               "{\"x\":1}",
                               "{\"type\":\"text\"}",
                               "[{\"role\":\"user\",\"content\":\"x\"}]",
                               "[{\"role\":\"tool\",\"content\":[{\"type\":\"text\"}]}]",
                               "\"POST\"",
                               "\"/v1/completions\"",
                               "\"/v1/chat/completions\"",
                               "[[[[[[[[]]]]]]]]",
                               "NaN",
                               "01"};

std::string random_object(Random& random, bool outer) {
  std::string text = random() % 4 == 0 ? "{" : R"({"prompt":"x")";
  if (outer && random() % 4 == 0) {
    const char* const urls[] = {"/v1/completions", "/v1/chat/completions"};
    text = R"({"custom_id":"c","url":")" + std::string(pick(random, urls)) + R"(","body":)" +
           random_object(random, false);
  }
  for (auto left = random() % 4; left > 0; --left) {
    if (text.size() > 1) text += ",";
    append_json_string(text, random() % 8 == 0 ? "unknown" : pick(random, kKeys).name);
    text += ":";
    text += pick(random, kValues);
  }
  return text + "}";
}

// Makes a line: random bytes, pieces of JSON, or a nearly valid request.
std::string random_line(Random& random) {
  std::string text;
  const auto kind = random() % 8;
  if (kind == 0) {
    text.resize(random() % 80);
    for (char& c : text) c = static_cast<char>(random());
    return text;
  }
  if (kind == 1) {
    for (auto left = random() % 40; left > 0; --left) text += pick(random, "{}[]\",:\\ue-0.tfn ");
    return text;
  }
  text = random_object(random, true);
  if (kind < 4) return text;
  for (auto left = 1 + random() % 4; left > 0 && !text.empty(); --left) {
    const size_t place = random() % text.size();
    switch (random() % 6) {
      case 0: text[place] = static_cast<char>(random()); break;
      case 1: text.erase(place, 1 + random() % 5); break;
      case 2: text.insert(place, pick(random, kValues)); break;
      case 3: text.insert(place, 1, pick(random, "{}[]\",:\\\0\n")); break;
      case 4: text.resize(place); break;
      case 5: text.insert(place, text.substr(0, random() % 30)); break;
    }
  }
  return text;
}

bool is_json(const std::string& text) {
  simdjson::dom::parser parser;
  return parser.parse(text).error() == simdjson::SUCCESS;
}

// Checks what holds for the result of any line.
void check_result(const ParsedLine& line) {
  const RequestDraft& request = line.request;
  CHECK(request.head.index == 8);
  CHECK(request.head.line == 9);
  if (!request.head.id_json.empty()) CHECK(is_json(request.head.id_json));
  CHECK(line.error.message.size() < 400);
  CHECK(simdjson::validate_utf8(line.error.message));
  CHECK(line.failed() == !line.error.message.empty());
  if (line.failed()) {
    const char* const codes[] = {"invalid_utf8",   "invalid_json",     "not_an_object",
                                 "missing_prompt", "ambiguous_prompt", "unsupported",
                                 "invalid_value"};
    CHECK(std::count(std::begin(codes), std::end(codes), line.error.code) == 1);
    return;
  }
  CHECK((!request.prompt || request.prompt_token_ids.empty()));
  if (request.prompt) CHECK(simdjson::validate_utf8(*request.prompt));
  for (const TokenId token : request.prompt_token_ids) CHECK(token >= 0);
  const SamplingParams& sampling = request.sampling;
  CHECK((sampling.temperature >= 0 && std::isfinite(sampling.temperature)));
  CHECK((sampling.top_p > 0 && sampling.top_p <= 1));
  CHECK((sampling.min_p >= 0 && sampling.min_p <= 1));
  CHECK(sampling.top_k >= 0);
  CHECK((sampling.repetition_penalty > 0 && std::isfinite(sampling.repetition_penalty)));
  CHECK((sampling.min_tokens >= 0 && sampling.min_tokens <= sampling.max_tokens));
  CHECK(sampling.max_tokens >= 1);
  for (const auto& stop : sampling.stop) CHECK(!stop.empty());
  for (const TokenBias bias : sampling.logit_bias) CHECK(std::abs(bias.bias) <= 100);
}

std::string random_text(Random& random) {
  std::string text;
  for (auto left = random() % 20; left > 0; --left) {
    text += pick(random, (const char* const[]){"a", " ", "\n", "\"", "\\", "\xC3\xA9", "\x01",
                                               "\xF0\x9F\x98\x80", "{", "\x7F"});
  }
  return text;
}

}  // namespace

TEST_CASE("any bytes give exactly one result, and a record of it is one line of JSON") {
  Random random(1);
  RequestParser parser({});
  int num_good = 0, num_batch = 0;
  for (int run = 0; run < 40'000; ++run) {
    const ParsedLine line = parse(parser, random_line(random));
    check_result(line);
    num_good += !line.failed();
    num_batch += line.request.head.form != RecordForm::kPlain;
    Completion completion = {.head = line.request.head, .error = line.error};
    if (!line.failed()) completion.choices.emplace_back();
    std::string record;
    append_record(record, completion, {});
    CHECK(record.find('\n') == record.size() - 1);
    CHECK(is_json(record));
  }
  MESSAGE(num_good, " good lines, ", num_batch, " of the OpenAI form");
  CHECK(num_good > 1000);
  CHECK(num_batch > 1000);
}

TEST_CASE("a bad line leaves no trace in the next one") {
  Random random(2);
  const std::string good = R"({"id":7,"prompt":"x","max_tokens":3,"stop":["a"]})";
  RequestParser used({});
  for (int run = 0; run < 5000; ++run) {
    parse(used, random_line(random));
    const ParsedLine line = parse(used, good);
    CHECK_FALSE(line.failed());
    CHECK(line.request.head.id_json == "7");
    CHECK(line.request.prompt == "x");
    CHECK(line.request.sampling.stop == std::vector<std::string>{"a"});
    CHECK(line.request.sampling.temperature == 0);
  }
}

TEST_CASE("parse results do not depend on the CPU's instruction set") {
  const auto* const best = simdjson::get_active_implementation().operator->();
  std::string names;
  std::vector<std::vector<std::string>> results;
  for (const auto* implementation : simdjson::get_available_implementations()) {
    if (!implementation->supported_by_runtime_system()) continue;
    simdjson::get_active_implementation() = implementation;
    names += implementation->name() + " ";
    RequestParser parser({});
    Random random(3);
    auto& own = results.emplace_back();
    for (int run = 0; run < 20000; ++run) {
      const ParsedLine line = parse(parser, random_line(random));
      own.push_back(fmt::format("{}: {} {}", line.error.code.name(), line.error.message,
                                line.request.prompt.value_or("-")));
    }
  }
  simdjson::get_active_implementation() = best;
  MESSAGE(names);
  for (const auto& own : results) {
    for (size_t run = 0; run < own.size(); ++run) CHECK(own[run] == results[0][run]);
  }
}

TEST_CASE("random requests written as JSON arrive as they are") {
  Random random(4);
  RequestParser parser({});
  const auto real = [&] { return static_cast<float>(random() % 1000) / 1000.0f; };
  for (int run = 0; run < 2000; ++run) {
    SamplingParams sampling;
    sampling.max_tokens = 1 + static_cast<int>(random() % 1000);
    sampling.min_tokens = static_cast<int>(random() % static_cast<unsigned>(sampling.max_tokens));
    sampling.temperature = 2 * real();
    sampling.top_p = 1 - real();
    sampling.min_p = real();
    sampling.top_k = static_cast<int>(random() % 50);
    sampling.repetition_penalty = 0.5f + real();
    sampling.presence_penalty = 4 * real() - 2;
    sampling.frequency_penalty = 4 * real() - 2;
    sampling.seed = uint64_t{random()} << 32 | random();
    for (auto left = random() % 3; left > 0; --left) {
      sampling.stop.push_back(random_text(random) + "x");
    }
    for (auto left = random() % 3; left > 0; --left) {
      sampling.stop_token_ids.push_back(int(random() >> 1));
    }
    for (auto left = random() % 3; left > 0; --left) {
      sampling.logit_bias.push_back({static_cast<TokenId>(100 - left), 200 * real() - 100});
    }
    const std::string prompt = random_text(random), id = random_text(random);
    std::vector<TokenId> token_ids;
    for (auto left = random() % 5; left > 0; --left) token_ids.push_back(int(random() >> 1));

    const bool batch = random() % 2 == 0, words = random() % 2 == 0;
    std::string text;
    JsonWriter json(text);
    json.begin_object().field(batch ? "custom_id" : "id", id);
    if (batch) json.field("url", "/v1/completions").key("body").begin_object();
    const auto write_list = [&](const char* name, const auto& list) {
      json.key(name).begin_array();
      for (const auto& item : list) json.value(item);
      json.end_array();
    };
    if (words) json.field("prompt", prompt);
    if (!words) write_list(batch ? "prompt" : "prompt_token_ids", token_ids);
    json.field("max_tokens", sampling.max_tokens).field("min_tokens", sampling.min_tokens);
    json.field("temperature", sampling.temperature).field("top_p", sampling.top_p);
    json.field("min_p", sampling.min_p).field("top_k", sampling.top_k);
    json.field("repetition_penalty", sampling.repetition_penalty).field("seed", sampling.seed);
    json.field("presence_penalty", sampling.presence_penalty);
    json.field("frequency_penalty", sampling.frequency_penalty);
    write_list("stop", sampling.stop);
    write_list("stop_token_ids", sampling.stop_token_ids);
    json.key("logit_bias").begin_object();
    for (const auto& [token, bias] : sampling.logit_bias) json.field(std::to_string(token), bias);
    json.end_object().end_object();
    if (batch) json.end_object();

    const ParsedLine line = parse(parser, text);
    CAPTURE(text);
    REQUIRE(line.error.message == "");
    const SamplingParams& read = line.request.sampling;
    CHECK(line.request.prompt.has_value() == words);
    if (words) CHECK(*line.request.prompt == prompt);
    if (!words) CHECK(line.request.prompt_token_ids == token_ids);
    std::string id_json;
    append_json_string(id_json, id);
    CHECK(line.request.head.id_json == id_json);
    CHECK(std::memcmp(&read.temperature, &sampling.temperature, sizeof(float)) == 0);
    CHECK(read.top_p == sampling.top_p);
    CHECK(read.min_p == sampling.min_p);
    CHECK(read.top_k == sampling.top_k);
    CHECK(read.repetition_penalty == sampling.repetition_penalty);
    CHECK(read.presence_penalty == sampling.presence_penalty);
    CHECK(read.frequency_penalty == sampling.frequency_penalty);
    CHECK(read.seed == sampling.seed);
    CHECK(read.max_tokens == sampling.max_tokens);
    CHECK(read.min_tokens == sampling.min_tokens);
    CHECK(read.stop == sampling.stop);
    CHECK(read.stop_token_ids == sampling.stop_token_ids);
    CHECK(std::equal(read.logit_bias.begin(), read.logit_bias.end(), sampling.logit_bias.begin(),
                     sampling.logit_bias.end(), [](TokenBias a, TokenBias b) {
                       return a.token == b.token && a.bias == b.bias;
                     }));
  }
}
