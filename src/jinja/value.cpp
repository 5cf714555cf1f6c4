#include "jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/utf8.h"

namespace pagedinfer::jinja {
namespace {

constexpr int kMaxValueNesting = 400;
constexpr size_t kMinIndexed = 9;  // entries of a dict that is searched through its index

int checked_depth(int depth) {
  if (depth > kMaxValueNesting) {
    throw TemplateError(fmt::format("values are nested more than {} deep", kMaxValueNesting), 0,
                        TemplateError::Reason::kLimit);
  }
  return depth;
}

int depth_of(const Value& value) {
  const Object* object = value.object();
  return object == nullptr ? 0 : object->depth();
}

size_t hash_of_double(double number) {
  // A float that is an integer is the same key as the integer.
  constexpr double kLimit = 9223372036854775808.0;
  if (number >= -kLimit && number < kLimit && number == std::floor(number)) {
    return std::hash<int64_t>()(static_cast<int64_t>(number));
  }
  return std::hash<double>()(number);
}

size_t hash_of(const Value& key, int levels = 2) {
  switch (key.kind()) {
    case Kind::kBool:
    case Kind::kInt: return std::hash<int64_t>()(key.as_int());
    case Kind::kFloat: return hash_of_double(key.as_double());
    case Kind::kString:
    case Kind::kBigInt: return std::hash<std::string_view>()(key.text());
    case Kind::kTuple: {
      size_t hash = key.items().size();
      if (levels == 0) return hash;
      for (const Value& item : key.items()) hash = hash * 1000003 ^ hash_of(item, levels - 1);
      return hash;
    }
    default: return static_cast<size_t>(key.kind());
  }
}

bool equal_lists(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    budget.spend_steps();
    if (!is_same(a[i], b[i]) && !equals(a[i], b[i], budget)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    budget.spend_steps();
    const Value* other = b.find(key, budget);
    if (other == nullptr) return false;
    if (!is_same(value, *other) && !equals(value, *other, budget)) return false;
  }
  return true;
}

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
  if (a.size() != b.size()) return false;
  if (a.size() == 0) return true;
  return a.start == b.start && (a.size() == 1 || a.step == b.step);
}

// A comparison of numbers: exact for integers beside floats too.
template <class Compare>
bool compare_numbers(const Value& a, const Value& b, Compare compare) {
  if (a.is_integral() && b.is_integral()) return compare(a.as_int(), b.as_int());
  const auto wide = [](const Value& value) {
    return value.is(Kind::kFloat) ? static_cast<long double>(value.as_double())
                                  : static_cast<long double>(value.as_int());
  };
  return compare(wide(a), wide(b));
}

[[noreturn]] void no_order(const Value& a, const Value& b) {
  throw TemplateError(fmt::format("{} and {} cannot be ordered", type_name(a), type_name(b)));
}

}  // namespace

Value Value::boolean(bool on) {
  Value value(Kind::kBool);
  value.content_.integer = on ? 1 : 0;
  return value;
}
Value Value::integer(int64_t number) {
  Value value(Kind::kInt);
  value.content_.integer = number;
  return value;
}
Value Value::real(double number) {
  Value value(Kind::kFloat);
  value.content_.real = number;
  return value;
}
Value Value::of(Kind kind, const Object* object) {
  object->add_reference();
  Value value(kind);
  value.content_.object = object;
  return value;
}
Value Value::big_integer(std::string digits) {
  return of(Kind::kBigInt, new StringObject({.text = std::move(digits)}, false));
}
Value Value::string(std::string text, bool marked) {
  return string(marked_text(std::move(text), marked));
}
Value Value::string(MarkedText text, bool safe) {
  return of(Kind::kString, new StringObject(std::move(text), safe));
}
Value Value::list(std::vector<Value> items) {
  return of(Kind::kList, new ListObject(std::move(items)));
}
Value Value::tuple(std::vector<Value> items) {
  return of(Kind::kTuple, new ListObject(std::move(items)));
}
Value Value::dict(Dict items) { return of(Kind::kDict, new DictObject(std::move(items))); }
Value Value::undefined(std::string message) {
  return of(Kind::kUndefined, new StringObject({.text = std::move(message)}, false));
}

const StringObject& Value::string_object() const { return as<StringObject>(); }
const MarkedText& Value::marked() const { return string_object().content; }
bool Value::is_safe() const { return is_string() && string_object().safe; }
const ListObject& Value::list_object() const { return as<ListObject>(); }
const std::vector<Value>& Value::items() const { return list_object().items; }
const Dict& Value::entries() const { return as<DictObject>().items; }
NamespaceObject& Value::name_space() const {
  return const_cast<NamespaceObject&>(as<NamespaceObject>());
}
const RangeObject& Value::range() const { return as<RangeObject>(); }
const ViewObject& Value::view() const { return as<ViewObject>(); }
IteratorObject& Value::iterator() const {
  return const_cast<IteratorObject&>(as<IteratorObject>());
}
const FunctionObject& Value::function() const { return as<FunctionObject>(); }

int depth_around(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return checked_depth(depth + 1);
}

DictObject::DictObject(Dict its_items)
    : Object([&] {
        int depth = 0;
        for (const auto& [key, value] : its_items.entries()) {
          depth = std::max({depth, depth_of(key), depth_of(value)});
        }
        return checked_depth(depth + 1);
      }()),
      items(std::move(its_items)) {}

int64_t RangeObject::size() const {
  // In wider arithmetic: the ends may be anywhere.
  const auto span = static_cast<__int128>(stop) - start;
  if (step > 0) return span <= 0 ? 0 : static_cast<int64_t>((span - 1) / step + 1);
  return span >= 0 ? 0 : static_cast<int64_t>((-span - 1) / -static_cast<__int128>(step) + 1);
}

ViewObject::ViewObject(const Value& its_dict, Of what)
    : Object(checked_depth(depth_of(its_dict) + 1)), dict(its_dict), of(what) {}

Value ViewObject::at(size_t i) const {
  const auto& [key, value] = dict.entries().entries()[i];
  if (of == Of::kKeys) return key;
  return of == Of::kValues ? value : Value::tuple({key, value});
}

FunctionObject::FunctionObject(std::string_view its_type, std::string its_name, const Value& holds)
    : Object(checked_depth(depth_of(holds) + 1)), type_name(its_type), name(std::move(its_name)) {}

template <class IsKey>
int Dict::find_entry(size_t hash, IsKey is_key) const {
  if (index_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (is_key(entries_[i].first)) return static_cast<int>(i);
    }
    return -1;
  }
  const auto [begin, end] = index_.equal_range(hash);
  const auto found = std::find_if(begin, end, [&](const auto& entry) {
    return is_key(entries_[static_cast<size_t>(entry.second)].first);
  });
  return found == end ? -1 : found->second;
}

void Dict::add(size_t hash, const Value& key, Value value) {
  entries_.emplace_back(key, std::move(value));
  if (!index_.empty()) {
    index_.emplace(hash, static_cast<int>(entries_.size()) - 1);
  } else if (entries_.size() >= kMinIndexed) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      index_.emplace(hash_of(entries_[i].first), static_cast<int>(i));
    }
  }
}

const Value* Dict::find(std::string_view key) const {
  const int i = find_entry(std::hash<std::string_view>()(key), [&](const Value& other) {
    return other.is_string() && other.text() == key;
  });
  return i < 0 ? nullptr : &entries_[static_cast<size_t>(i)].second;
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  const int i = find_entry(hash_of(key), [&](const Value& other) {
    budget.spend_steps();
    return is_same(key, other) || equals(key, other, budget);
  });
  return i < 0 ? nullptr : &entries_[static_cast<size_t>(i)].second;
}

void Dict::set(const Value& key, Value value, Budget& budget) {
  if (const Value* old = find(key, budget)) {
    const_cast<Value&>(*old) = std::move(value);
  } else {
    add(hash_of(key), key, std::move(value));
  }
}

void Dict::set(std::string_view key, Value value, bool marked) {
  if (const Value* old = find(key)) {
    const_cast<Value&>(*old) = std::move(value);
  } else {
    add(std::hash<std::string_view>()(key), Value::string(std::string(key), marked),
        std::move(value));
  }
}

bool is_hashable(const Value& key, Budget& budget) {
  budget.spend_steps();
  switch (key.kind()) {
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView: return false;
    case Kind::kTuple:
      return std::ranges::all_of(key.items(),
                                 [&](const Value& item) { return is_hashable(item, budget); });
    case Kind::kString: budget.spend_reading(key.text().size()); return true;
    default: return true;
  }
}
void check_hashable(const Value& key, Budget& budget) {
  if (is_hashable(key, budget)) return;
  throw TemplateError(fmt::format("{} cannot be hashed", type_name(key)));
}

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "None";
    case Kind::kBool: return "bool";
    case Kind::kInt:
    case Kind::kBigInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return value.is_safe() ? "Markup" : "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "namespace";
    case Kind::kRange: return "range";
    case Kind::kView:
      return value.view().of == ViewObject::Of::kKeys     ? "dict_keys"
             : value.view().of == ViewObject::Of::kValues ? "dict_values"
                                                          : "dict_items";
    case Kind::kIterator: return std::string(value.iterator().type_name);
    case Kind::kFunction: return std::string(value.function().type_name);
  }
  return {};
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.as_int() != 0;
    case Kind::kFloat: return value.as_double() != 0;
    case Kind::kString: return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple: return !value.items().empty();
    case Kind::kDict: return value.entries().size() > 0;
    case Kind::kRange: return value.range().size() > 0;
    case Kind::kView: return value.view().dict.entries().size() > 0;
    default: return true;
  }
}

Value length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return Value::integer(0);
    case Kind::kString: return Value::integer(num_characters(value.text()));
    case Kind::kList:
    case Kind::kTuple: return Value::integer(static_cast<int64_t>(value.items().size()));
    case Kind::kDict: return Value::integer(static_cast<int64_t>(value.entries().size()));
    case Kind::kRange: return Value::integer(value.range().size());
    case Kind::kView:
      return Value::integer(static_cast<int64_t>(value.view().dict.entries().size()));
    case Kind::kFunction:
      return value.function().attribute && value.function().type_name == "LoopContext"
                 ? value.function().attribute("length")
                 : Value();
    default: return {};
  }
}

bool equals(const Value& a, const Value& b, Budget& budget) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b, std::equal_to<>());
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kBigInt:
    case Kind::kString:
      if (a.text().size() != b.text().size()) return false;
      budget.spend_reading(a.text().size());
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple: return equal_lists(a.items(), b.items(), budget);
    case Kind::kDict: return equal_dicts(a.entries(), b.entries(), budget);
    case Kind::kRange: return equal_ranges(a.range(), b.range());
    case Kind::kView:
      if (b.view().of != a.view().of) return false;
      if (a.view().of == ViewObject::Of::kValues) return is_same(a, b);
      if (a.view().of == ViewObject::Of::kItems) {
        return equal_dicts(a.view().dict.entries(), b.view().dict.entries(), budget);
      }
      return a.view().dict.entries().size() == b.view().dict.entries().size() &&
             std::ranges::all_of(a.view().dict.entries().entries(), [&](const auto& entry) {
               return b.view().dict.entries().find(entry.first, budget) != nullptr;
             });
    case Kind::kNamespace:
    case Kind::kIterator:
    case Kind::kFunction: return is_same(a, b);
    default: return true;  // undefined, none
  }
}

bool is_same(const Value& a, const Value& b) {
  constexpr int64_t kMinShared = -5, kMaxShared = 256;  // integers that Python has once
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::kInt)) {
    return a.as_int() == b.as_int() && a.as_int() >= kMinShared && a.as_int() <= kMaxShared;
  }
  if (a.is(Kind::kBool)) return a.as_bool() == b.as_bool();
  if (a.is(Kind::kFloat)) return false;
  return a.object() == b.object();
}

bool is_less(const Value& a, const Value& b, Budget& budget) {
  budget.spend_steps();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b, std::less<>());
  if (a.kind() != b.kind()) no_order(a, b);
  if (a.is_string()) {
    budget.spend_reading(std::min(a.text().size(), b.text().size()));
    return a.text() < b.text();  // as by code points
  }
  if (!a.is(Kind::kList) && !a.is(Kind::kTuple)) no_order(a, b);
  const std::vector<Value>&x = a.items(), &y = b.items();
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    budget.spend_steps();
    if (!is_same(x[i], y[i]) && !equals(x[i], y[i], budget)) return is_less(x[i], y[i], budget);
  }
  return x.size() < y.size();
}

}  // namespace pagedinfer::jinja
