// A flag as a row of a table, and what its value can be: a setting of a run, or a flag that only
// one subcommand has.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/numbers.h"
#include "settings/config.h"

namespace pagedinfer {

// The value of any setting. monostate: no value is set, and the default is derived from the model
// or the machine.
using Value =
    std::variant<std::monostate, bool, int64_t, uint64_t, float, double, IntegerRange, Shard,
                 CpuList, std::string, std::vector<std::string>, std::vector<TokenId>>;

// How a value is written.
enum class Kind : uint8_t {
  kSwitch,    // a flag that stands alone; true or false in a line
  kOnOff,     // on or off
  kChoice,    // one of the setting's names; an int64_t
  kInteger,   // int64_t
  kSeed,      // any integer of 64 bits; a uint64_t
  kNumber,    // double, or float if the field is a float
  kBytes,     // with a unit, as in 1.5GB; an int64_t
  kPath,      // any bytes
  kText,      // UTF-8
  kTexts,     // a flag that may be given several times; a text or a list in a line
  kTokenIds,  // with commas between them; a list in a line
  kShard,     // I/N
  kCpuList,   // N,N-N,...
  kLengths,   // A-B, or A for A-A; an IntegerRange
  kFlags,     // a text of flags; any bytes
  kWords,     // words without a flag; any bytes
};

// Reads and writes one field of `Options`, which is what a command line gives: a Config, or a
// struct of a subcommand that has one.
template <class Options>
struct Access {
  Value (*get)(const Options&) = nullptr;
  void (*set)(Options&, const Value&) = nullptr;
  // Set for a field of SamplingParams, else null.
  Value (*get_sampling)(const SamplingParams&) = nullptr;
  void (*set_sampling)(SamplingParams&, const Value&) = nullptr;

  constexpr bool is_sampling() const { return get_sampling != nullptr; }
};

template <class Options>
struct Field : Access<Options> {
  Kind kind = Kind::kSwitch;
};

// One name of a value. If a value has several names, the first is shown.
struct Choice {
  std::string_view name;
  int64_t value;
};

// The choice that leaves an optional field without a value.
inline constexpr int64_t kNoValue = -1;

// The headings of --help.
enum class Group : uint8_t {
  kJob,
  kModel,
  kDevice,
  kCache,
  kScheduling,
  kForm,
  kSampling,
  kWorkload,  // from here on: of flags that only one subcommand has
  kMeasurement,
  kComparison,
  kPlan,
  kInfo,
  kMerge,
};

// Whether the setting changes the records. If it does, a run is resumed only with the same value.
// (--input and --model are no exception: a resumed run compares the contents instead of the names.)
enum class Effect : uint8_t { kChangesRecords, kKeepsRecords };

// Fields that only a few settings use.
struct Details {
  char letter = 0;  // of a short flag
  std::variant<std::monostate, IntegerRange, NumberRange> range = {};
  std::span<const Choice> choices = {};
  bool minus_one_is_zero = false;
  std::string_view not_empty = "";       // set if the text must not be empty: what is expected
  std::string_view value = "";           // placeholder in --help, unless the kind decides it
  std::string_view absent = "";          // the default in words, if the field has no value
  bool in_line = false;                  // a line may set it
  std::string_view generation_key = "";  // its name in generation_config.json, if that may set it
  bool is_flag = true;                   // false: only lines can set it
  bool is_usual = false;                 // --help shows it, and not only --help-all
};

// What parsing and help need to know of a flag.
struct FlagRow : Details {
  Group group = Group::kJob;
  std::string_view key = "";  // in lines and in the summary; the flag has dashes for underscores
  Kind kind = Kind::kSwitch;
  std::string_view help = "", when = "";  // sentences: what it does, and when to change it
};

// A flag whose value is stored in `Options`.
template <class Options>
struct FlagOf : FlagRow {
  Access<Options> field = {};
};

template <class Options>
constexpr FlagOf<Options> flag_row(Group group, std::string_view key, const Field<Options>& field,
                                   std::string_view help, std::string_view when,
                                   const Details& details = {}) {
  return {{details, group, key, field.kind, help, when}, field};
}

struct Setting : FlagOf<Config> {
  Effect effect = Effect::kChangesRecords;
};

namespace detail {

template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};
template <class T>
struct Unwrapped<OrDefault<T>> {
  using type = T;
};
template <class T>
struct Unwrapped<SharedList<T>> {
  using type = std::vector<T>;
};

template <class T>
consteval Kind kind_of() {
  if constexpr (std::is_same_v<T, bool>) return Kind::kSwitch;
  if constexpr (std::is_enum_v<T>) return Kind::kChoice;
  if constexpr (std::is_same_v<T, uint64_t>) return Kind::kSeed;
  if constexpr (std::is_integral_v<T>) return Kind::kInteger;
  if constexpr (std::is_floating_point_v<T>) return Kind::kNumber;
  if constexpr (std::is_same_v<T, std::string>) return Kind::kText;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return Kind::kTexts;
  if constexpr (std::is_same_v<T, std::vector<TokenId>>) return Kind::kTokenIds;
  if constexpr (std::is_same_v<T, Shard>) return Kind::kShard;
  if constexpr (std::is_same_v<T, CpuList>) return Kind::kCpuList;
  if constexpr (std::is_same_v<T, IntegerRange>) return Kind::kLengths;
}

template <class T>
Value to_value(const T& field) {
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, int>) {
    return static_cast<int64_t>(field);
  } else {
    return field;
  }
}
template <class T>
Value to_value(const std::optional<T>& field) {
  return field ? to_value(*field) : Value();
}
template <class T>
Value to_value(const OrDefault<T>& field) {
  return to_value(field.value);
}
template <class T>
Value to_value(const SharedList<T>& field) {
  return field.copy();
}

template <class T>
void from_value(const Value& value, T& field) {
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, int>) {
    field = static_cast<T>(std::get<int64_t>(value));
  } else if constexpr (std::is_same_v<T, float>) {
    const double* const number = std::get_if<double>(&value);
    field = number != nullptr ? static_cast<float>(*number) : std::get<float>(value);
  } else {
    field = std::get<T>(value);
  }
}
template <class T>
void from_value(const Value& value, std::optional<T>& field) {
  field.reset();
  if (!std::holds_alternative<std::monostate>(value)) from_value(value, field.emplace());
}
template <class T>
void from_value(const Value& value, OrDefault<T>& field) {
  from_value(value, field.value);
  field.is_given = true;
}

template <class T>
void from_value(const Value& value, SharedList<T>& field) {
  field = std::get<std::vector<T>>(value);
}

template <class Struct, class T>
T type_of(T Struct::*);
template <class Struct, class T>
Struct struct_of(T Struct::*);

}  // namespace detail

// The accessors of a field of SamplingParams, or of a struct that a command line fills. `kKind` is
// given if the field's type does not decide it.
template <auto kMember, Kind kKind = detail::kind_of<
                            typename detail::Unwrapped<decltype(detail::type_of(kMember))>::type>()>
constexpr auto field_of() {
  using detail::from_value, detail::to_value;
  using Struct = decltype(detail::struct_of(kMember));
  if constexpr (std::is_same_v<Struct, SamplingParams>) {
    return Field<Config>{
        {.get = [](const Config& config) { return to_value(config.sampling.values.*kMember); },
         .set = [](Config& config,
                   const Value& value) { from_value(value, config.sampling.values.*kMember); },
         .get_sampling = [](const SamplingParams& params) { return to_value(params.*kMember); },
         .set_sampling = [](SamplingParams& params,
                            const Value& value) { from_value(value, params.*kMember); }},
        kKind};
  } else {
    return Field<Struct>{
        {.get = [](const Struct& options) { return to_value(options.*kMember); },
         .set = [](Struct& options, const Value& value) { from_value(value, options.*kMember); }},
        kKind};
  }
}

}  // namespace pagedinfer
