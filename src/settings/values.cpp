#include "settings/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/check.h"
#include "core/json.h"
#include "core/numbers.h"
#include "settings/table.h"

namespace pagedinfer {
namespace {

template <class T>
std::optional<Value> as_value(std::optional<T> read) {
  return read ? std::optional<Value>(*read) : std::nullopt;
}

// A negative seed is the unsigned number with the same bits.
std::optional<uint64_t> read_seed(std::string_view text) {
  if (const auto number = read_number<uint64_t>(text)) return number;
  const auto negative = read_number<int64_t>(text);
  return negative ? std::optional(static_cast<uint64_t>(*negative)) : std::nullopt;
}

// The bytes of a unit. No unit and B are 1. K, M, G and T, alone or with B, are powers of 1,000;
// with i or iB they are powers of 1,024.
std::optional<double> factor_of(std::string_view unit) {
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const bool names_bytes = unit.ends_with('B') || unit.ends_with('b');
  if (names_bytes) unit.remove_suffix(1);
  if (unit.empty()) return 1;
  const bool is_binary = unit.ends_with('i');
  if (is_binary) unit.remove_suffix(1);
  constexpr std::string_view kLarge = "KMGT", kSmall = "kmgt";
  if (unit.size() != 1) return std::nullopt;
  const size_t power = std::min(kLarge.find(unit[0]), kSmall.find(unit[0]));
  if (power == std::string_view::npos) return std::nullopt;
  return std::pow(is_binary ? 1024 : 1000, static_cast<double>(power + 1));
}

std::optional<int64_t> read_bytes(std::string_view text) {
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [unit, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const double bytes = number * factor_of(std::string_view(unit, end)).value_or(-1);
  return bytes >= 0 && bytes < 9e18 ? std::optional<int64_t>(std::llround(bytes)) : std::nullopt;
}

std::optional<Shard> read_shard(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto index = read_number<int64_t>(text.substr(0, slash));
  const auto count = read_number<int64_t>(text.substr(slash + 1));
  if (!index || !count) return std::nullopt;
  return Shard{*index, *count};
}

std::optional<IntegerRange> read_lengths(std::string_view text) {
  const size_t dash = std::min(text.find('-'), text.size());
  const auto from = read_number<int64_t>(text.substr(0, dash));
  const auto to = dash == text.size() ? from : read_number<int64_t>(text.substr(dash + 1));
  if (!from || !to) return std::nullopt;
  return IntegerRange{*from, *to};
}

std::optional<std::vector<TokenId>> read_token_ids(std::string_view text) {
  std::vector<TokenId> tokens;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const auto token = read_number<TokenId>(text.substr(begin, comma - begin));
    if (!token) return std::nullopt;
    tokens.push_back(*token);
    begin = comma + 1;
  }
  return tokens;
}

std::optional<Value> read_choice(const FlagRow& flag, std::string_view text) {
  const auto found = std::ranges::find(flag.choices, text, &Choice::name);
  if (found == flag.choices.end()) return std::nullopt;
  return found->value == kNoValue ? Value() : Value(found->value);
}

std::optional<Value> read_any(const FlagRow& flag, std::string_view text) {
  switch (flag.kind) {
    case Kind::kSwitch: return Value(true);
    case Kind::kOnOff:
      return text == "on" || text == "off" ? std::optional<Value>(text == "on") : std::nullopt;
    case Kind::kChoice: return read_choice(flag, text);
    case Kind::kInteger: return as_value(read_number<int64_t>(text));
    case Kind::kSeed: return as_value(read_seed(text));
    case Kind::kNumber: return as_value(read_number<double>(text));
    case Kind::kBytes: return as_value(read_bytes(text));
    case Kind::kPath:  // "" is no file, and does not ask for the default either
      return text.empty() ? std::nullopt : std::optional<Value>(std::string(text));
    case Kind::kText:
    case Kind::kFlags: return Value(std::string(text));
    case Kind::kTexts:
    case Kind::kWords: return Value(std::vector{std::string(text)});
    case Kind::kTokenIds: return as_value(read_token_ids(text));
    case Kind::kShard: return as_value(read_shard(text));
    case Kind::kCpuList: return as_value(read_cpu_list(text));
    case Kind::kLengths: return as_value(read_lengths(text));
  }
  return std::nullopt;
}

std::string number_text(auto number) {
  std::string text;
  append_json_number(text, number);
  return text;
}

template <class T>
void append(const Value& value, Value& to) {
  const auto& from = std::get<T>(value);
  auto& list = std::get<T>(to);
  list.insert(list.end(), from.begin(), from.end());
}

}  // namespace

std::string flag_of(const FlagRow& flag) {
  if (flag.kind == Kind::kWords) return std::string(flag.key);
  std::string name = fmt::format("--{}", flag.key);
  std::ranges::replace(name, '_', '-');
  return name;
}

bool is_flag_of(const FlagRow& flag, std::string_view name) {
  return name == flag_of(flag) || (flag.letter != 0 && name == std::string{'-', flag.letter});
}

bool takes_several(const FlagRow& flag) {
  return flag.kind == Kind::kTexts || flag.kind == Kind::kTokenIds || flag.kind == Kind::kWords;
}

std::string names_of(const FlagRow& flag, std::string_view separator) {
  std::string names;
  for (const Choice& choice : flag.choices) {
    const auto first = std::ranges::find(flag.choices, choice.value, &Choice::value);
    if (first->name != choice.name) continue;
    names += fmt::format("{}{}", names.empty() ? "" : separator, choice.name);
  }
  return names;
}

std::string expected_token_ids() {
  return fmt::format("a list of token ids from 0 to {}", kMaxCount);
}

std::string expected_of(const FlagRow& flag) {
  if (const auto* const range = std::get_if<IntegerRange>(&flag.range)) {
    if (flag.kind == Kind::kBytes) return "bytes, as in 500MB, 1.5GB or 2GiB";
    if (flag.kind != Kind::kLengths) return text_of(*range);
    return fmt::format("A-B, numbers of tokens from {} to {} and A not above B, or one number",
                       range->from, range->to);
  }
  if (const auto* const range = std::get_if<NumberRange>(&flag.range)) return text_of(*range);
  if (!flag.not_empty.empty()) return std::string(flag.not_empty);
  switch (flag.kind) {
    case Kind::kSwitch: return "true or false";
    case Kind::kOnOff: return "one of on, off";
    case Kind::kChoice: return fmt::format("one of {}", names_of(flag, ", "));
    case Kind::kSeed: return "an integer of 64 bits";
    case Kind::kTexts: return "texts that are not empty";
    case Kind::kTokenIds: return expected_token_ids();
    case Kind::kShard: return "I/N with I from 0 to N - 1, as in 0/8";
    case Kind::kCpuList: return "numbers of processors, each once, as in 0,2-5";
    case Kind::kPath: return "a path that is not empty";
    default: return "a text in UTF-8";
  }
}

bool is_allowed(const FlagRow& flag, const Value& value) {
  if (const auto* const range = std::get_if<IntegerRange>(&flag.range)) {
    if (const auto* const both = std::get_if<IntegerRange>(&value)) {
      return range->contains(both->from) && range->contains(both->to) && both->from <= both->to;
    }
    const auto* const number = std::get_if<int64_t>(&value);
    return number == nullptr || range->contains(*number);
  }
  if (const auto* const range = std::get_if<NumberRange>(&flag.range)) {
    const auto* const single = std::get_if<float>(&value);
    return range->contains(single != nullptr ? *single : std::get<double>(value));
  }
  if (const auto* const text = std::get_if<std::string>(&value)) {
    if (text->empty() && !flag.not_empty.empty()) return false;
    return flag.kind == Kind::kPath || flag.kind == Kind::kFlags || is_utf8(*text);
  }
  if (const auto* const texts = std::get_if<std::vector<std::string>>(&value)) {
    return flag.kind == Kind::kWords || std::ranges::all_of(*texts, [](const std::string& text) {
             return !text.empty() && is_utf8(text);
           });
  }
  if (const auto* const tokens = std::get_if<std::vector<TokenId>>(&value)) {
    return std::ranges::all_of(*tokens, [](TokenId token) { return token >= 0; });
  }
  if (const auto* const shard = std::get_if<Shard>(&value)) {
    return shard->index >= 0 && shard->index < shard->count;
  }
  return true;
}

Value normalized(const FlagRow& flag, Value value) {
  auto* const number = std::get_if<int64_t>(&value);
  if (flag.minus_one_is_zero && number != nullptr && *number == -1) *number = 0;
  return value;
}

std::optional<Value> read_text(const FlagRow& flag, std::string_view text) {
  std::optional<Value> value = read_any(flag, text);
  if (value && !is_allowed(flag, *value)) value.reset();
  return value;
}

Value value_after(const FlagRow& flag, std::string_view text, const Value& before) {
  const std::optional<Value> value = read_text(flag, text);
  if (!value) throw Error(refusal(flag_of(flag), shortened(text), expected_of(flag)));
  if (!takes_several(flag)) return *value;
  Value all = before;
  if (flag.kind == Kind::kTokenIds) {
    append<std::vector<TokenId>>(*value, all);
  } else {
    append<std::vector<std::string>>(*value, all);
  }
  return all;
}

std::string text_of(const FlagRow& flag, const Value& value) {
  struct Writer {
    const FlagRow& flag;
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(bool on) const { return on ? "on" : "off"; }
    std::string operator()(int64_t number) const {
      const auto choice = std::ranges::find(flag.choices, number, &Choice::value);
      if (choice != flag.choices.end()) return std::string(choice->name);
      return number_text(number);
    }
    std::string operator()(uint64_t number) const { return number_text(number); }
    std::string operator()(float number) const { return number_text(number); }
    std::string operator()(double number) const { return number_text(number); }
    std::string operator()(const IntegerRange& range) const {
      return fmt::format("{}-{}", range.from, range.to);
    }
    std::string operator()(const Shard& shard) const {
      return fmt::format("{}/{}", shard.index, shard.count);
    }
    std::string operator()(const CpuList& list) const { return pagedinfer::text_of(list); }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const std::vector<std::string>& texts) const {
      std::string list;
      JsonWriter json(list);
      json.begin_array();
      for (const std::string& text : texts) json.value(text);
      json.end_array();
      return list;
    }
    std::string operator()(const std::vector<TokenId>& tokens) const {
      return fmt::format("{}", fmt::join(tokens, ","));
    }
  };
  return std::visit(Writer{flag}, value);
}

void give(const FlagOf<Config>& setting, const Value& value, GivenSampling& sampling) {
  setting.field.set_sampling(sampling.values, normalized(setting, value));
  sampling.given.insert(setting.key);
}

void give(const FlagOf<Config>& setting, const Value& value, Config& config) {
  if (setting.field.is_sampling()) return give(setting, value, config.sampling);
  setting.field.set(config, normalized(setting, value));
}

void give(std::string_view key, std::string_view text, Config& config) {
  const Setting* const setting = find_setting(key);
  CHECK(setting != nullptr);
  give_text(*setting, text, config);
}

void apply(const GivenSampling& from, SamplingParams& params) {
  for (const Setting& setting : kSettings) {
    if (!from.has(setting.key)) continue;
    setting.field.set_sampling(params, setting.field.get_sampling(from.values));
  }
}

void check_values(const Config& config) {
  for (const Setting& setting : kSettings) {
    const Value value = setting.field.get(config);
    if (is_allowed(setting, value)) continue;
    throw Error(
        refusal(flag_of(setting), shortened(text_of(setting, value)), expected_of(setting)));
  }
}

}  // namespace pagedinfer
