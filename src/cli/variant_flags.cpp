#include "cli/variant_flags.h"

#include <fmt/format.h>

#include <span>
#include <vector>

#include "cli/command_flags.h"
#include "cli/flag_checks.h"
#include "core/error.h"
#include "core/refusal.h"
#include "settings/table.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

// Splits a text into words as a shell does. Spaces separate words, except in single or double
// quotes. Outside of single quotes a backslash makes the next character an ordinary one. No other
// character is special. Throws Error if a quote does not end.
std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;        // the open quote; 0: none
  bool in_word = false;  // '' is a word
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      if (c == '\\' && quote != '\'' && i + 1 < text.size()) c = text[++i];
      words.back() += c;
    }
  }
  if (quote != 0) {
    throw Error(fmt::format("{}: the quote {} does not end", shortened(text), quote));
  }
  return words;
}

// Refuses flags in which configurations may not differ.
void check_may_differ(const std::vector<std::string>& words, const VariantRules& rules) {
  for (const std::string& word : words) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    for (const Setting& setting : kSettings) {
      if (!setting.is_flag || rules.may_differ(setting)) continue;
      if (is_flag_of(setting, name)) throw Error(fmt::format("{}: {}", name, rules.why_not));
    }
  }
}

Config read_config(const std::vector<std::string>& words, const Config& common,
                   const VariantRules& rules) {
  check_may_differ(words, rules);
  Config config = common;
  CLI::App app;
  app.allow_extras();
  add_setting_flags(app, config, ShownSettings::kNone, rules.may_differ);
  std::vector<const char*> all = {"pagedinfer"};
  for (const std::string& word : words) all.push_back(word.c_str());
  check_values(app, std::span(all).subspan(1));
  try {
    app.parse(static_cast<int>(all.size()), all.data());
  } catch (const CLI::ParseError&) {
    check_repeated(app);
    throw Error("expected flags and their values");
  }
  check_leftovers(app.remaining(), flags_of(app), std::string(rules.help));
  return config;
}

}  // namespace

Variant read_variant(std::string_view flag, const std::string& text, const Config& common,
                     const VariantRules& rules) {
  try {
    return {.flags = text, .config = read_config(split_words(text), common, rules)};
  } catch (const Error& error) {
    const bool is_word = !text.empty() && text.find(' ') == std::string::npos;
    throw Error(fmt::format("{} {}: {}{}", flag, shell_word(shortened(text)), error.what(),
                            is_word ? "; put the flags of a configuration into quotes" : ""));
  }
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace pagedinfer
