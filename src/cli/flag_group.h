// Flags of a subcommand, as --help shows them.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/shard.h"

namespace pagedinfer {

inline constexpr size_t kHelpColumn = 36;  // where the sentences of --help begin

// Breaks a text into lines that fit beside the names of the flags.
std::string wrapped(std::string_view text);

template <class T>
using Names = std::vector<std::pair<std::string_view, T>>;

// The flags of one heading of --help.
class FlagGroup {
 public:
  FlagGroup(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  // `value` stands behind the flag in --help: what it takes, and its default in brackets.
  template <class T>
  CLI::Option* add(const char* flag, T& field, const char* value, const char* help) {
    return describe(app_.add_option(flag, field), value, help);
  }

  // A flag that takes a decimal integer, all of which fits its field.
  template <std::integral T>
  void add(const char* flag, std::optional<T>& field, const char* value, const char* help) {
    const auto read = [=, &field](const std::string& given) {
      T number = 0;
      const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
      if (error != std::errc() || end != given.data() + given.size()) {
        throw Error(fmt::format("{} {}: expected a decimal integer from {} to {}", flag, given,
                                std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
      }
      field = number;
    };
    describe(app_.add_option_function<std::string>(flag, read), value, help);
  }

  // A flag that takes I/N.
  void add_shard(const char* flag, std::optional<Shard>& field, const char* value,
                 const char* help);

  // A flag that takes a text, which may be empty.
  void add_text(const char* flag, std::optional<std::string>& field, const char* value,
                const char* help) {
    const auto read = [&field](const std::string& given) { field = given; };
    describe(app_.add_option_function<std::string>(flag, read), value, help);
  }

  // A flag that takes a number of bytes, as in 500MB.
  void add_bytes(const char* flag, std::optional<int64_t>& field, const char* value,
                 const char* help) {
    describe(app_.add_option(flag, field)->transform(CLI::AsSizeValue(true)), value, help);
  }

  // A flag that may be given several times; `delimiter` separates values of one.
  template <class T>
  void add_list(const char* flag, std::vector<T>& field, char delimiter, const char* value,
                const char* help) {
    add(flag, field, value, help)->delimiter(delimiter)->allow_extra_args(false);
  }

  // What stands on the command line without a flag.
  void add_files(const char* name, std::vector<std::string>& field, const char* value,
                 const char* help) {
    app_.add_option(name, field)->option_text(value)->description(wrapped(help));
  }

  // A flag that stands alone and turns something on.
  template <class T>
  void add_switch(const char* flag, T& field, const char* help) {
    describe(app_.add_flag(flag, field), "", help);
  }

  // A flag that takes one of the names.
  template <class T, class Field>
  void add_choice(const char* flag, Field& field, const Names<T>& names, const char* value,
                  const char* help) {
    const auto choose = [=, &field](const std::string& given) {
      std::string known;
      for (const auto& [name, meaning] : names) {
        if (given == name) {
          field = meaning;
          return;
        }
        known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
      }
      throw Error(fmt::format("{} {}: expected one of {}", flag, given, known));
    };
    describe(app_.add_option_function<std::string>(flag, choose), value, help);
  }

 private:
  CLI::Option* describe(CLI::Option* option, const char* value, const char* help) {
    return option->group(name_)->option_text(value)->description(wrapped(help));
  }

  CLI::App& app_;
  std::string name_;
};

}  // namespace pagedinfer
