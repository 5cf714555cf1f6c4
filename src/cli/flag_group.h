// Flags of a subcommand, as --help shows them.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/shard.h"
#include "core/shortened.h"

namespace pagedinfer {

inline constexpr size_t kHelpColumn = 36;  // where the sentences of --help begin

// Breaks a text into lines that fit beside the names of the flags.
std::string wrapped(std::string_view text);

// The number that the whole of `given` is, in decimal. Throws Error, naming the flag, if it is none
// or does not fit.
template <class T>
T read_number(const char* flag, const std::string& given) {
  T number = 0;
  const char* const end = given.data() + given.size();
  const auto [stop, error] = std::from_chars(given.data(), end, number);
  if (error == std::errc() && stop == end) return number;
  if constexpr (std::integral<T>) {
    throw Error(fmt::format("{} {}: expected a decimal integer from {} to {}", flag,
                            shortened(given), std::numeric_limits<T>::min(),
                            std::numeric_limits<T>::max()));
  } else {
    throw Error(fmt::format("{} {}: expected a number, as in 0.5", flag, shortened(given)));
  }
}

// The same for one of a range; all that is wrong with it is said by the range.
template <class Range>
auto read_number(const char* flag, const std::string& given, Range range) {
  auto number = range.from;
  const char* const end = given.data() + given.size();
  const auto [stop, error] = std::from_chars(given.data(), end, number);
  if (error == std::errc() && stop == end && range.contains(number)) return number;
  throw Error(fmt::format("{} {}: expected {}", flag, shortened(given), text_of(range)));
}

template <class T>
using Names = std::vector<std::pair<std::string_view, T>>;

// The flags of one heading of --help.
class FlagGroup {
 public:
  FlagGroup(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  // A flag that takes a text. `value` stands behind the flag in --help: what it takes, and its
  // default in brackets.
  void add(const char* flag, std::string& field, const char* value, const char* help) {
    describe(app_.add_option(flag, field), value, help);
  }

  // A flag that takes a number, all of which fits its field.
  template <class T>
  requires std::integral<T> || std::floating_point<T>
  void add(const char* flag, std::optional<T>& field, const char* value, const char* help) {
    const auto read = [=, &field](const std::string& given) {
      field = read_number<T>(flag, given);
    };
    describe(app_.add_option_function<std::string>(flag, read), value, help);
  }
  void add(const char* flag, double& field, const char* value, const char* help) {
    const auto read = [=, &field](const std::string& given) {
      field = read_number<double>(flag, given);
    };
    describe(app_.add_option_function<std::string>(flag, read), value, help);
  }

  // A flag that takes a number of a range.
  template <class T, class Range>
  void add(const char* flag, std::optional<T>& field, Range range, const char* value,
           const char* help) {
    const auto read = [=, &field](const std::string& given) {
      field = static_cast<T>(read_number(flag, given, range));
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

  // A flag that takes a number of bytes, as in 500MB or 1.5GiB.
  void add_bytes(const char* flag, std::optional<int64_t>& field, const char* value,
                 const char* help);

  // A flag that takes a text and may be given several times.
  void add_list(const char* flag, std::vector<std::string>& field, const char* value,
                const char* help) {
    describe(app_.add_option(flag, field)->allow_extra_args(false), value, help);
  }

  // A flag that takes numbers with commas between them, and may be given several times.
  template <std::integral T>
  void add_list(const char* flag, std::vector<T>& field, const char* value, const char* help) {
    const auto read = [=, &field](const std::vector<std::string>& given) {
      field.clear();
      for (const std::string& list : given) {
        std::istringstream numbers(list + ',');
        for (std::string number; std::getline(numbers, number, ',');) {
          field.push_back(read_number<T>(flag, number));
        }
      }
    };
    describe(
        app_.add_option_function<std::vector<std::string>>(flag, read)->allow_extra_args(false),
        value, help);
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
      throw Error(fmt::format("{} {}: expected one of {}", flag, shortened(given), known));
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
