// What evaluates a template's expressions: attributes, items, calls, operators.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace pagedinfer::jinja {

// A date and a time of a day.
struct DateTime {
  int year = 2024, month = 7, day = 26;
  int hour = 0, minute = 0, second = 0;
};

// What a template gets for what is not there: an empty value, or an error as with jinja2's
// StrictUndefined, unless it is tested by `defined` or replaced by `default`. An error comes when
// the value is read; jinja2 waits until it is used.
enum class Undefined : bool { kEmpty, kFails };

// The state of one rendering that operations need.
struct Runtime {
  Budget& budget;
  const DateTime& now;
  const Undefined undefined;
  std::vector<Value> kept = {};  // namespaces and iterators, which may refer to each other

  explicit Runtime(Budget& its_budget, const DateTime& its_now, Undefined its_undefined)
      : budget(its_budget), now(its_now), undefined(its_undefined) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  Value text(MarkedText content, bool safe = false) {
    budget.spend_objects(1);
    budget.spend_text(content.text.size());
    budget.spend_memory(content.marks.size() * sizeof(Span));
    return Value::string(std::move(content), safe);
  }
  Value list(std::vector<Value> items) {
    budget.spend_objects(1);
    budget.spend_values(items.size());
    return Value::list(std::move(items));
  }
  Value tuple(std::vector<Value> items) {
    budget.spend_objects(1);
    budget.spend_values(items.size());
    return Value::tuple(std::move(items));
  }
  Value dict(Dict items) {
    budget.spend_objects(1 + items.size());
    budget.spend_values(2 * items.size());
    return Value::dict(std::move(items));
  }
  // Throws TemplateError if the value is undefined and the rendering does not allow that.
  void check_defined(const Value& value) const {
    if (undefined == Undefined::kEmpty || !value.is_undefined()) return;
    throw TemplateError(value.text(), 0, TemplateError::Reason::kUndefined);
  }
};

// The cost of every filter, test or method: one step, and the reading of its strings.
void spend_operands(Budget& budget, const Value& value, const Arguments& arguments);

// The arguments of a call by the names of the parameters. Throws TemplateError if there are too
// many, unknown ones, or too few: the first `num_required` must be there.
class Bound {
 public:
  Bound(std::string_view function, Arguments arguments,
        std::initializer_list<std::string_view> parameters, size_t num_required = 0);

  // Missing if it was not given.
  const Value& operator[](size_t i) const { return values_[i]; }
  bool has(size_t i) const { return !values_[i].is_missing(); }
  bool has_value(size_t i) const { return has(i) && !values_[i].is_none(); }
  // Throw TemplateError if the argument is of another type.
  int64_t integer(size_t i, int64_t otherwise) const;
  const MarkedText& string(size_t i) const;
  bool truth(size_t i, bool otherwise) const;

 private:
  [[noreturn]] void fail(size_t i, std::string_view expected) const;

  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<Value> values_;
};

// The items of a value, one after the other.
class Items {
 public:
  // Throws TemplateError if the value has no items.
  Items(Runtime& runtime, const Value& of);
  // Missing at the end.
  Value next();

 private:
  Runtime& runtime_;
  Value of_;
  size_t at_ = 0;
};

bool is_iterable(const Value& value);
std::vector<Value> all_items(Runtime& runtime, const Value& value);
// An iterator whose `next` refers to the values `holds`.
Value make_iterator(Runtime& runtime, std::string_view type, const std::vector<Value>& holds,
                    std::function<Value()> next);

// Throws TemplateError, with the value's own message, if it is undefined.
void require_defined(const Value& value);

// object.name and object[key], each of which falls back to the other, as in the sandbox of
// transformers. Undefined if there is neither.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// object[begin:end:step], where none stands for a part that was left out.
Value get_slice(Runtime& runtime, const Value& object, const Value& begin, const Value& end,
                const Value& step);

Value call(Runtime& runtime, const Value& function, Arguments arguments);

// `op`: + - * / // % **
Value arithmetic(Runtime& runtime, std::string_view op, const Value& a, const Value& b);
Value negative(const Value& value);
Value positive(const Value& value);
// `op`: == != < <= > >= in, not in
bool compare(Runtime& runtime, std::string_view op, const Value& a, const Value& b);

// The functions that a template has without being given them; missing if there is no such one.
Value global_function(Runtime& runtime, std::string_view name);

}  // namespace pagedinfer::jinja
