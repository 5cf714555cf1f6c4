#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/refusal.h"
#include "text/files/tokenizer_json.h"
#include "text/unicode/utf8.h"

namespace pagedinfer {
namespace {

// The pattern of GPT-2, which "use_regex" turns on.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Numbers that are new in Unicode 17; the patterns use version 16.
constexpr std::string_view kNumber =
    "[\\p{N}\xF0\x91\xB7\xA0-\xF0\x91\xB7\xA9\xF0\x96\xBF\xB4-\xF0\x96\xBF\xB6]";

[[noreturn]] void fail_type(const JsonObject& step, std::string_view supported) {
  step.fail("type",
            fmt::format("is {}, supported are {}", shortened(step.string("type")), supported));
}

void append_steps(const JsonObject& object, std::string_view list, std::vector<JsonObject>& steps) {
  if (object.string("type") != "Sequence") return steps.push_back(object);
  check_keys(object, {"type", list});
  for (const JsonObject& inner : object.objects(list)) append_steps(inner, list, steps);
}

// The object itself, or the steps of a Sequence; empty for null.
std::vector<JsonObject> steps_of(const JsonObject& root, std::string_view key,
                                 std::string_view list) {
  std::vector<JsonObject> steps;
  if (const auto object = root.find_object(key)) append_steps(*object, list, steps);
  return steps;
}

// "pattern": {"String": "..."} or {"Regex": "..."}.
struct Pattern {
  std::string text;
  bool is_regex;
};

Pattern read_pattern(const JsonObject& step) {
  const auto pattern = step.find_object("pattern");
  if (!pattern) step.refuse("pattern", "", "an object with String or Regex");
  check_keys(*pattern, {"String", "Regex"});
  const auto literal = pattern->find_string("String"), regex = pattern->find_string("Regex");
  if (literal.has_value() == regex.has_value()) {
    step.fail("pattern", "has both String and Regex or neither");
  }
  if (literal.value_or(regex.value_or("")).empty()) step.fail("pattern", "is empty");
  return {literal ? *literal : *regex, regex.has_value()};
}

std::pair<std::string, std::string> read_replace(const JsonObject& step) {
  check_keys(step, {"type", "pattern", "content"});
  Pattern pattern = read_pattern(step);
  if (pattern.is_regex) step.fail("pattern", "is a Regex, supported here is String");
  return {std::move(pattern.text), step.string("content")};
}

SplitBehavior read_behavior(const JsonObject& step) {
  const std::string name = step.string("behavior");
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  step.fail("behavior", fmt::format("is {}, which is not known", shortened(name)));
}

PreTokenizerStep split_regex(const JsonObject& step, std::string_view key, std::string_view pattern,
                             SplitBehavior behavior, bool invert) {
  try {
    return split_at(std::make_shared<const Regex>(pattern), behavior, invert);
  } catch (const Error& error) {
    step.fail(key, error.what());
  }
}

PreTokenizerStep read_split(const JsonObject& step) {
  check_keys(step, {"type", "pattern", "behavior", "invert"});
  Pattern pattern = read_pattern(step);
  const SplitBehavior behavior = read_behavior(step);
  const bool invert = step.find_bool("invert").value_or(false);
  if (!pattern.is_regex) return split_at(std::move(pattern.text), behavior, invert);
  return split_regex(step, "pattern", pattern.text, behavior, invert);
}

// The character that replaces spaces.
std::string read_mark(const JsonObject& step) {
  const std::string mark = step.string("replacement");
  if (mark.empty() || utf8_size(mark.front()) != mark.size()) {
    step.refuse("replacement", shortened(mark), "one character");
  }
  return mark;
}

PrependScheme read_prepend_scheme(const JsonObject& step) {
  const auto old_style = step.find_bool("add_prefix_space");
  const auto name = step.find_string("prepend_scheme");
  if (old_style == false) {
    if (name && *name != "never") {
      step.fail("prepend_scheme",
                fmt::format("is {}, but add_prefix_space is false", shortened(*name)));
    }
    return PrependScheme::kNever;
  }
  if (!name || *name == "always") return PrependScheme::kAlways;
  if (*name == "first") return PrependScheme::kFirst;
  if (*name == "never") return PrependScheme::kNever;
  step.fail("prepend_scheme", fmt::format("is {}, which is not known", shortened(*name)));
}

const std::initializer_list<std::string_view> kMetaspaceKeys = {
    "type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"};
const std::initializer_list<std::string_view> kByteLevelKeys = {"type", "add_prefix_space",
                                                                "trim_offsets", "use_regex"};

void read_byte_level(const JsonObject& step, std::vector<PreTokenizerStep>& steps) {
  check_keys(step, kByteLevelKeys);
  if (step.find_bool("add_prefix_space").value_or(true)) steps.push_back(add_prefix_space());
  if (step.find_bool("use_regex").value_or(true)) {
    steps.push_back(
        split_regex(step, "use_regex", kByteLevelPattern, SplitBehavior::kIsolated, false));
  }
}

}  // namespace

void check_keys(const JsonObject& object, std::initializer_list<std::string_view> known) {
  for (const auto field : object.fields()) {
    if (field.value.is_null() || std::ranges::find(known, field.key) != known.end()) continue;
    object.fail(field.key, "is not supported");
  }
}

Normalizer read_normalizer(const JsonObject& root) {
  std::vector<NormalizerStep> steps;
  for (const JsonObject& step : steps_of(root, "normalizer", "normalizers")) {
    const std::string type = step.string("type");
    if (type == "NFC") {
      check_keys(step, {"type"});
      steps.push_back(nfc());
    } else if (type == "Replace") {
      auto [from, to] = read_replace(step);
      steps.push_back(replace_all(std::move(from), std::move(to)));
    } else if (type == "Prepend") {
      check_keys(step, {"type", "prepend"});
      steps.push_back(prepend(step.string("prepend")));
    } else {
      fail_type(step, "NFC, Replace, Prepend and Sequence");
    }
  }
  return Normalizer(std::move(steps));
}

std::vector<PreTokenizerStep> read_pre_tokenizer(const JsonObject& root, bool& byte_level) {
  std::vector<PreTokenizerStep> steps;
  byte_level = false;
  for (const JsonObject& step : steps_of(root, "pre_tokenizer", "pretokenizers")) {
    const std::string type = step.string("type");
    if (byte_level) {
      step.fail("type", fmt::format("is {} after ByteLevel, which is last", shortened(type)));
    }
    if (type == "Split") {
      steps.push_back(read_split(step));
    } else if (type == "ByteLevel") {
      read_byte_level(step, steps);
      byte_level = true;
    } else if (type == "Metaspace") {
      check_keys(step, kMetaspaceKeys);
      steps.push_back(metaspace(read_mark(step), read_prepend_scheme(step),
                                step.find_bool("split").value_or(true)));
    } else if (type == "Digits") {
      check_keys(step, {"type", "individual_digits"});
      const bool single = step.find_bool("individual_digits").value_or(false);
      steps.push_back(split_regex(step, "type", kNumber,
                                  single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
                                  false));
    } else {
      fail_type(step, "Split, ByteLevel, Metaspace, Digits and Sequence");
    }
  }
  return steps;
}

TokenText read_decoder(const JsonObject& root) {
  TokenText text;
  const std::vector<JsonObject> steps = steps_of(root, "decoder", "decoders");
  if (steps.empty()) root.fail("decoder", "is missing, which is not supported");
  bool whole = false;  // the steps so far have joined all tokens into one text
  for (const JsonObject& step : steps) {
    const std::string type = step.string("type");
    const bool strip = type == "Strip";
    if (whole && !strip) {
      step.fail("type", fmt::format("is {}, which is not supported there", shortened(type)));
    }
    if (type == "ByteLevel") {
      check_keys(step, kByteLevelKeys);
      if (text.byte_fallback) step.fail("type", "is ByteLevel after ByteFallback");
      text.byte_level = whole = true;
    } else if (type == "Replace" || type == "Metaspace") {
      if (text.byte_fallback) {
        step.fail("type", fmt::format("is {} after ByteFallback", shortened(type)));
      }
      if (type == "Metaspace") {
        check_keys(step, kMetaspaceKeys);
        read_prepend_scheme(step);  // affects only the beginning of a text
        text.replace.emplace_back(read_mark(step), " ");
      } else {
        text.replace.push_back(read_replace(step));
      }
    } else if (type == "ByteFallback") {
      check_keys(step, {"type"});
      text.byte_fallback = true;
    } else if (type == "Fuse") {
      check_keys(step, {"type"});
      whole = true;
    } else if (strip && whole) {
      // Stripping from the left affects only the beginning of a text.
      check_keys(step, {"type", "content", "start", "stop"});
      if (step.find_integer("stop", 0, INT32_MAX).value_or(0) != 0) {
        step.fail("stop", "is not 0, which is not supported");
      }
    } else {
      fail_type(step,
                "ByteLevel, Replace, Metaspace, ByteFallback, Fuse, Strip (after Fuse) and "
                "Sequence");
    }
  }
  return text;
}

void read_post_processor(const JsonObject& root, const Vocabulary& vocabulary,
                         std::vector<TokenId>& prefix, std::vector<TokenId>& suffix) {
  bool done = false;
  for (const JsonObject& step : steps_of(root, "post_processor", "processors")) {
    const std::string type = step.string("type");
    if (type == "ByteLevel") {
      check_keys(step, kByteLevelKeys);  // its settings concern offsets only
      continue;
    }
    if (type != "TemplateProcessing") fail_type(step, "TemplateProcessing, ByteLevel and Sequence");
    if (done) step.fail("type", "is a second TemplateProcessing, which is not supported");
    done = true;
    check_keys(step, {"type", "single", "pair", "special_tokens"});
    const auto tokens = step.find_object("special_tokens");
    bool seen = false;  // the prompt
    for (const JsonObject& piece : step.objects("single")) {
      check_keys(piece, {"SpecialToken", "Sequence"});
      const auto special = piece.find_object("SpecialToken");
      const auto sequence = piece.find_object("Sequence");
      if (special.has_value() == sequence.has_value()) {
        step.fail("single", "holds what is neither SpecialToken nor Sequence");
      }
      if (sequence) {
        if (seen || sequence->string("id") != "A") step.fail("single", "has not A once");
        seen = true;
        continue;
      }
      const std::string name = special->string("id");
      const auto token = tokens ? tokens->find_object(name) : std::nullopt;
      if (!token) {
        step.fail("single", fmt::format("has '{}', not in special_tokens", shortened(name)));
      }
      for (const int64_t id : token->integers("ids", 0, Vocabulary::kMaxIds - 1)) {
        if (!vocabulary.has(static_cast<TokenId>(id))) {
          token->fail("ids", fmt::format("holds {}, which is no token", id));
        }
        (seen ? suffix : prefix).push_back(static_cast<TokenId>(id));
      }
    }
    if (!seen) step.fail("single", "has not A once");
  }
}

}  // namespace pagedinfer
