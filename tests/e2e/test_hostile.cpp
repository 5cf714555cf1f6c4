// Ten thousand hostile lines among ten thousand good ones.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

using Random = std::mt19937;

std::string repeated_text(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string token_ids(size_t count) { return "[5" + repeated_text(",5", count - 1) + "]"; }

struct HostileLine {
  std::string code;
  std::string text;
};

// Every way to be wrong that the program knows, the sizes left to chance.
std::vector<HostileLine> hostile_lines(Random& random) {
  const size_t some = 1 + random() % 50, many = 1100 + random() % 3000;
  const std::string number = std::to_string(random());
  const auto with = [](std::string_view pairs) {
    return fmt::format(R"({{"prompt":"Nora",{}}})", pairs);
  };
  std::vector<HostileLine> lines;
  const auto add = [&](const char* code, std::string text) {
    lines.push_back({code, std::move(text)});
  };
  // Not JSON.
  for (const char* text :
       {"{", "}", "nonsense", "{\"prompt\":\"x\"", "{\"prompt\" \"x\"}", "{'prompt':'x'}",
        "{\"prompt\":\"x\",}", "[1,2", "\"", "{\"prompt\":\"x\"} {\"prompt\":\"y\"}", "NaN",
        "{\"prompt\":\"\x01\"}", "{\"prompt\":\"\\x\"}", "{\"prompt\":\"\\u12\"}", "tru"}) {
    add("invalid_json", text);
  }
  add("invalid_json", std::string(some, '\0'));
  add("invalid_json", "{\"prompt\":\"a" + std::string(some, '\0') + "\"}");
  add("invalid_json", with("\"seed\":0" + number));
  add("invalid_json", R"({"prompt":"\ud83d"})");
  add("invalid_json", R"({"prompt":"\udc00 )" + number + "\"}");
  add("invalid_json", with(R"("id":"\ud800x")"));
  for (const char* open : {"[", "{\"a\":", "[[{\"a\":"}) {
    add("invalid_json", repeated_text(open, many));
  }
  add("invalid_json", with("\"x\":" + repeated_text("[", many) + repeated_text("]", many)));
  add("invalid_json", repeated_text("[", many) + repeated_text("]", many));
  add("invalid_json", with("\"temperature\":1e4" + number));
  add("invalid_json", with("\"x\":-1e99" + number));
  // Not UTF-8: a stray byte, an overlong form, half a character, a surrogate, beyond the last.
  for (const char* bytes : {"\xFF", "\xC0\xAF", "\xE2\x82", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    add("invalid_utf8", fmt::format("{{\"prompt\":\"{}{}\"}}", std::string(some, 'a'), bytes));
    add("invalid_utf8", bytes);
  }
  for (const char* text : {"1", "\"x\"", "null", "true", "[]", "[{\"prompt\":\"x\"}]", "-0.5e1"}) {
    add("not_an_object", text);
  }
  for (const char* text : {"{}", "{\"id\":1}", "{\"prompt\":null}", "{\"Prompt\":\"x\"}"}) {
    add("missing_prompt", text);
  }
  add("ambiguous_prompt", with("\"prompt_token_ids\":[5]"));
  add("empty_prompt", R"({"prompt":""})");
  add("empty_prompt", R"({"prompt_token_ids":[]})");
  for (const char* pairs : {"\"max_tokens\":0",
                            "\"max_tokens\":-1",
                            "\"max_tokens\":\"8\"",
                            "\"max_tokens\":1.5",
                            "\"max_tokens\":1e300",
                            "\"max_tokens\":99999999999",
                            "\"temperature\":-1",
                            "\"temperature\":\"hot\"",
                            "\"temperature\":[]",
                            "\"top_p\":0",
                            "\"top_p\":1.5",
                            "\"min_p\":2",
                            "\"top_k\":-2",
                            "\"repetition_penalty\":0",
                            "\"seed\":{}",
                            "\"stop\":5",
                            "\"stop\":[1]",
                            "\"stop_token_ids\":\"x\"",
                            "\"stop_token_ids\":[1.5]",
                            "\"ignore_eos\":\"yes\"",
                            "\"logit_bias\":[1]",
                            "\"logit_bias\":{\"x\":1}",
                            "\"logit_bias\":{\"5\":1000}",
                            "\"id\":[]",
                            "\"id\":1.5",
                            "\"min_tokens\":-5"}) {
    add("invalid_value", with(pairs));
  }
  for (const char* prompt : {"5", "true", "{}", "[\"x\"]", "-1"}) {
    add("invalid_value", fmt::format("{{\"prompt\":{}}}", prompt));
  }
  for (const char* ids : {"5", "\"x\"", "[\"x\"]", "[1.5]", "[-1]", "[[5]]", "[99999999999]"}) {
    add("invalid_value", fmt::format("{{\"prompt_token_ids\":{}}}", ids));
  }
  add("unsupported", with(R"("tools":[{"function":{"name":"f"}}])"));
  add("unsupported", with(R"("response_format":{"type":"structural_tag"})"));
  add("unknown_token_id", fmt::format(R"({{"prompt_token_ids":[5,{}]}})", 100000 + some));
  add("unknown_token_id", with("\"logit_bias\":{\"100000\":1}"));
  add("unknown_token_id", with("\"stop_token_ids\":[2147483647]"));
  add("prompt_too_long", fmt::format(R"({{"prompt_token_ids":{}}})", token_ids(some + 200)));
  add("prompt_too_long",
      fmt::format(R"({{"prompt":"{}"}})", repeated_text("Nora and ", 200 + some)));
  add("exceeds_cache", fmt::format(R"({{"prompt_token_ids":{}}})", token_ids(65 + some)));
  add("exceeds_cache", with("\"max_tokens\":200"));
  return lines;
}

// Small work of many kinds. The id goes into the random numbers, so that the line need not.
std::string harmless_line(Random& random, int number) {
  std::string text = fmt::format("{{\"id\":\"good {}\",", number);
  if (random() % 2 == 0) {
    text += fmt::format("\"prompt\":\"Question: {} + {}?\"", random() % 9, random() % 9);
  } else {
    text += fmt::format("\"prompt_token_ids\":{}", token_ids(1 + random() % 20));
  }
  if (random() % 2 == 0) text += fmt::format(",\"temperature\":1.5,\"seed\":{}", random());
  if (random() % 4 == 0) text += R"(,"stop":["a"],"unknown key":[[null]])";
  return text + fmt::format(",\"max_tokens\":{}}}", 1 + random() % 2);
}

// A record without the one field that says where its line stands among others.
std::string cut_index(const std::string& record) {
  const size_t begin = record.find("\"index\":"), end = record.find(',', begin);
  return record.substr(0, begin) + record.substr(end + 1);
}

}  // namespace

TEST_CASE("10,000 hostile lines get a record each, and 10,000 good ones are as without them") {
  constexpr int kGood = 10'000, kBad = 10'000;
  Random random(1);
  std::vector<HostileLine> bad;
  while (bad.size() < kBad) {
    for (HostileLine& line : hostile_lines(random)) bad.push_back(std::move(line));
  }
  bad.resize(kBad);
  std::shuffle(bad.begin(), bad.end(), random);

  std::string good_alone, mixed;
  std::vector<std::string> codes;  // of the mixed lines; "" = a good one
  std::vector<int64_t> numbers;    // of them in the file
  int64_t number = 0;
  for (int good = 0; static_cast<int>(codes.size()) < kGood + kBad;) {
    const bool takes_good = random() % 2 == 0 ? good < kGood : bad.empty();
    for (; random() % 10 == 0; ++number) mixed += " \r\n";
    if (takes_good) {
      const std::string line = harmless_line(random, good++) + "\n";
      good_alone += line;
      mixed += line;
      codes.push_back("");
    } else if (!bad.empty()) {
      mixed += bad.back().text + "\n";
      codes.push_back(bad.back().code);
      bad.pop_back();
    } else {
      continue;
    }
    numbers.push_back(++number);
  }

  // 64 positions in the cache, 128 in a sequence: there are prompts for either limit.
  const Words flags = {"--num-blocks", "4", "--max-model-len", "128", "--quiet"};
  const Answers alone = answer(good_alone, flags), both = answer(mixed, flags);
  CHECK(alone.exit_code == 0);
  CHECK(both.exit_code == 2);
  CHECK(both.err.find("note: line 404: \"Prompt\": did you mean prompt?\n") != std::string::npos);
  CHECK(both.err.ends_with("\n" + last_line(kGood, kBad)));
  CHECK(std::ranges::count(both.err, '\n') ==
        2 + std::ssize(std::set(codes.begin(), codes.end())) - 1);
  REQUIRE(alone.records.size() == kGood);
  REQUIRE(both.records.size() == codes.size());
  size_t good = 0;
  std::map<std::string, int> wrong;
  for (size_t i = 0; i < codes.size(); ++i) {
    const Json& record = both.records[i];
    bool fine = record.integer("/index") == static_cast<int64_t>(i);
    if (codes[i].empty()) {
      fine = fine && cut_index(record.line()) == cut_index(alone.records[good++].line());
    } else {
      fine = fine && record.has("/error/code") && record.text("/error/code") == codes[i] &&
             record.integer("/line") == numbers[i] && !record.text("/error/message").empty();
    }
    if (!fine && ++wrong[codes[i]] <= 3) MESSAGE("expected ", codes[i], ": ", record.line());
  }
  CHECK(good == kGood);
  CHECK(wrong.empty());
}

}  // namespace pagedinfer
