#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/budget.h"
#include "jinja/marked_text.h"

namespace pagedinfer::jinja {

enum class Kind : uint8_t {
  kMissing,    // no value at all: a variable that nothing was assigned to yet
  kUndefined,  // what a template gets for a name, an attribute or an item that is not there
  kNone,
  kBool,
  kInt,
  kBigInt,  // of JSON text, beyond 64 bits: can be printed and compared for equality only
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kNamespace,
  kRange,
  kView,      // of a dict: its keys, values or items
  kIterator,  // gives each item once: Python's generators
  kFunction,  // what can be called, and things with attributes: macros, methods, `loop`
};

// What a value refers to. Counts its references, also over threads; all but namespaces, iterators
// and loops are constant once they are made.
class Object {
 public:
  explicit Object(int depth) : depth_(depth) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  int depth() const { return depth_; }  // how deep containers are nested in it
  void add_reference() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  mutable std::atomic<int> references_ = 0;
  int depth_;
};

class Dict;
struct StringObject;
struct ListObject;
struct DictObject;
struct NamespaceObject;
struct RangeObject;
struct ViewObject;
struct IteratorObject;
struct FunctionObject;

// A value of a template, as Python has them. Cheap to copy.
class Value {
 public:
  Value() = default;  // missing
  Value(const Value& other) : kind_(other.kind_), content_(other.content_) {
    if (has_object()) content_.object->add_reference();
  }
  Value(Value&& other) noexcept : kind_(other.kind_), content_(other.content_) {
    other.kind_ = Kind::kMissing;
  }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(content_, other.content_);
    return *this;
  }
  ~Value() {
    if (has_object()) content_.object->drop_reference();
  }

  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool on);
  static Value integer(int64_t number);
  static Value real(double number);
  static Value big_integer(std::string digits);
  // REQUIRES: `text` is UTF-8. `marked`: people wrote it.
  static Value string(std::string text, bool marked = false);
  static Value string(MarkedText text, bool safe = false);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value dict(Dict items);
  // What fails with `message` when it is used as more than an empty value.
  static Value undefined(std::string message);
  static Value of(Kind kind, const Object* object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return is(Kind::kMissing); }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_string() const { return is(Kind::kString); }
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat); }
  // An integer or a boolean, which is one too.
  bool is_integral() const { return is(Kind::kBool) || is(Kind::kInt); }

  // REQUIRES: the value is of that kind (is_integral(), is_number() for the numbers).
  bool as_bool() const { return content_.integer != 0; }
  int64_t as_int() const { return content_.integer; }
  double as_double() const {
    return is(Kind::kFloat) ? content_.real : static_cast<double>(content_.integer);
  }
  const MarkedText& marked() const;  // of a string; of an undefined value, its message
  const std::string& text() const { return marked().text; }
  bool is_safe() const;  // a string that went through the filters `safe` or `escape`
  const std::vector<Value>& items() const;  // of a list or a tuple
  const Dict& entries() const;              // of a dict
  const StringObject& string_object() const;
  const ListObject& list_object() const;
  NamespaceObject& name_space() const;
  const RangeObject& range() const;
  const ViewObject& view() const;
  IteratorObject& iterator() const;
  const FunctionObject& function() const;
  // Of values that have one; null for others.
  const Object* object() const { return has_object() ? content_.object : nullptr; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  template <class T>
  const T& as() const {
    return static_cast<const T&>(*content_.object);
  }
  bool has_object() const {
    return kind_ == Kind::kUndefined || kind_ == Kind::kBigInt || kind_ >= Kind::kString;
  }

  Kind kind_ = Kind::kMissing;
  union {
    int64_t integer;
    double real;
    const Object* object;
  } content_ = {0};
};

// A dict: keys in the order in which they came.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  // The value of a key; null if there is none.
  const Value* find(std::string_view key) const;
  // REQUIRES of these two: check_hashable() accepts the key.
  const Value* find(const Value& key, Budget& budget) const;
  void set(const Value& key, Value value, Budget& budget);
  // `marked`: people wrote the key.
  void set(std::string_view key, Value value, bool marked = false);

 private:
  template <class IsKey>
  int find_entry(size_t hash, IsKey is_key) const;
  void add(size_t hash, const Value& key, Value value);

  std::vector<Entry> entries_ = {};
  // Hashes to entries; of small dicts, empty. In order, so that no choice of keys makes it slow.
  std::multimap<size_t, int> index_ = {};
};

// Whether Python can hash a key of a dict; check_hashable() throws TemplateError if not.
bool is_hashable(const Value& key, Budget& budget);
void check_hashable(const Value& key, Budget& budget);

// The nesting of a container of these items. Throws TemplateError if it is too deep.
int depth_around(const std::vector<Value>& items);

struct StringObject : Object {
  StringObject(MarkedText its_content, bool is_safe)
      : Object(0), content(std::move(its_content)), safe(is_safe) {}
  MarkedText content;
  bool safe;  // Markup: what is added to it is escaped
};

struct ListObject : Object {
  explicit ListObject(std::vector<Value> its_items)
      : Object(depth_around(its_items)), items(std::move(its_items)) {}
  std::vector<Value> items;
  bool is_group = false;  // a tuple of the filter groupby: has the attributes grouper and list
};

struct DictObject : Object {
  explicit DictObject(Dict its_items);
  Dict items;
};

// Can be changed. A rendering holds a reference to each until its end, as to iterators, and clears
// it then: chains and circles of them are not taken apart one inside the other.
struct NamespaceObject : Object {
  NamespaceObject() : Object(0) {}
  Dict attributes = {};
};

struct RangeObject : Object {
  RangeObject(int64_t its_start, int64_t its_stop, int64_t its_step)
      : Object(0), start(its_start), stop(its_stop), step(its_step) {}
  int64_t size() const;
  int64_t at(int64_t i) const { return start + i * step; }
  int64_t start, stop, step;
};

struct ViewObject : Object {
  enum class Of { kKeys, kValues, kItems };
  ViewObject(const Value& its_dict, Of what);
  Value at(size_t i) const;
  Value dict;
  Of of;
};

struct IteratorObject : Object {
  // `next` gives the next item, or a missing value at the end.
  IteratorObject(std::string_view name, int depth, std::function<Value()> its_next)
      : Object(depth), type_name(name), next(std::move(its_next)) {}
  std::string_view type_name;
  std::function<Value()> next;
};

// The arguments of a call.
struct Arguments {
  std::vector<Value> positional = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

struct FunctionObject : Object {
  // `holds`: a value that it refers to.
  FunctionObject(std::string_view its_type, std::string its_name, const Value& holds = {});
  std::string_view type_name;
  std::string name;
  std::function<Value(Arguments)> call = {};              // empty: cannot be called
  std::function<Value(std::string_view)> attribute = {};  // missing: not there
};

// The type of `self`, a template's blocks, which there are none of.
inline constexpr std::string_view kReference = "TemplateReference";

// Python's name of the value's type.
std::string type_name(const Value& value);

// bool(value).
bool is_true(const Value& value);

// The number of items or characters. Missing where len() fails.
Value length_of(const Value& value);

// a == b, and whether `a` is the object `b`.
bool equals(const Value& a, const Value& b, Budget& budget);
bool is_same(const Value& a, const Value& b);

// Whether a < b. Throws TemplateError if they have no order.
bool is_less(const Value& a, const Value& b, Budget& budget);

}  // namespace pagedinfer::jinja
