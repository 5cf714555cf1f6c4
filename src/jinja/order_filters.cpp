
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "jinja/filters.h"
#include "jinja/text_operations.h"

namespace pagedinfer::jinja {
namespace {

// The indices of the keys in order; keys that are equal stay in the order in which they came.
std::vector<size_t> sorted_indices(Runtime& runtime, const std::vector<Value>& keys,
                                   bool descending) {
  runtime.budget.spend_values(keys.size());
  std::vector<size_t> indices(keys.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  std::stable_sort(indices.begin(), indices.end(), [&](size_t a, size_t b) {
    return descending ? is_less(keys[b], keys[a], runtime.budget)
                      : is_less(keys[a], keys[b], runtime.budget);
  });
  return indices;
}

Value in_order(Runtime& runtime, const std::vector<Value>& values, const std::vector<Value>& keys,
               bool descending) {
  std::vector<Value> result;
  for (const size_t i : sorted_indices(runtime, keys, descending)) result.push_back(values[i]);
  return runtime.list(std::move(result));
}

Value sort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool with_case = bound.truth(1, false);
  std::vector<AttributePath> paths;
  if (bound.has(2) && bound[2].is_string()) {
    for (const Span& span : split_at(bound[2].text(), ",", -1, false, runtime.budget)) {
      paths.emplace_back(runtime,
                         Value::string(bound[2].text().substr(span.begin, span.end - span.begin)));
    }
  } else {
    paths.emplace_back(runtime, bound[2]);
  }
  const std::vector<Value> values = all_items(runtime, value);
  std::vector<Value> keys;
  for (const Value& item : values) {
    runtime.budget.spend_steps(paths.size());
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      key.push_back(with_case ? path.of(item) : without_case(runtime, path.of(item)));
    }
    keys.push_back(runtime.list(std::move(key)));
  }
  return in_order(runtime, values, keys, bound.truth(0, false));
}

Value dictsort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.has(1) ? bound.string(1).text : "key";
  if (by != "key" && by != "value") {
    throw TemplateError("dictsort sorts by 'key' or by 'value'");
  }
  require_defined(value);
  if (!value.is(Kind::kDict)) throw TemplateError("dictsort expects a dict");
  std::vector<Value> values, keys;
  for (const auto& [key, item] : value.entries().entries()) {
    values.push_back(runtime.tuple({key, item}));
    const Value& sorted_by = by == "key" ? key : item;
    keys.push_back(bound.truth(0, false) ? sorted_by : without_case(runtime, sorted_by));
  }
  return in_order(runtime, values, keys, bound.truth(2, false));
}

Value unique(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  struct State {
    std::optional<Items> items = {};
    Dict seen = {};
  };
  const bool with_case = bound.truth(0, false);
  return make_iterator(runtime, "generator", {value},
                       [&runtime, value, with_case, path = AttributePath(runtime, bound[1]),
                        state = State()]() mutable {
                         if (!state.items) state.items.emplace(runtime, value);
                         while (true) {
                           Value item = state.items->next();
                           if (item.is_missing()) return item;
                           Value key = path.of(item);
                           if (!with_case) key = without_case(runtime, key);
                           check_hashable(key, runtime.budget);
                           if (state.seen.find(key, runtime.budget) != nullptr) continue;
                           runtime.budget.spend_values(2);
                           state.seen.set(key, Value::none(), runtime.budget);
                           return item;
                         }
                       });
}

template <bool kMax>
Value extreme(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound(kMax ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(runtime, bound[1]);
  Value best, best_key;
  Items items(runtime, value);
  for (Value item = items.next(); !item.is_missing(); item = items.next()) {
    Value key = path.of(item);
    if (!bound.truth(0, false)) key = without_case(runtime, key);
    const bool better = best.is_missing() || (kMax ? is_less(best_key, key, runtime.budget)
                                                   : is_less(key, best_key, runtime.budget));
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return best.is_missing() ? Value::undefined("no item, the sequence was empty") : best;
}

Value groupby(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(runtime, bound[0], bound[1]);
  const std::vector<Value> values = all_items(runtime, value);
  std::vector<Value> keys;
  for (const Value& item : values) {
    const Value key = path.of(item);
    keys.push_back(bound.truth(2, false) ? key : without_case(runtime, key));
  }
  std::vector<Value> groups;
  const std::vector<size_t> order = sorted_indices(runtime, keys, false);
  for (size_t begin = 0; begin < order.size();) {
    std::vector<Value> members;
    size_t end = begin;
    while (end < order.size() && equals(keys[order[end]], keys[order[begin]], runtime.budget)) {
      members.push_back(values[order[end++]]);
    }
    if (end == begin) members.push_back(values[order[end++]]);  // a key that equals nothing
    const Value key = path.of(members[0]);
    runtime.budget.spend_values(2);
    auto* group = new ListObject({key, runtime.list(std::move(members))});
    group->is_group = true;
    groups.push_back(Value::of(Kind::kTuple, group));
    begin = end;
  }
  return runtime.list(std::move(groups));
}

constexpr std::array kOrderFilters = std::to_array<NamedFilter>({
    {"dictsort", dictsort},
    {"groupby", groupby},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"sort", sort},
    {"unique", unique},
});

}  // namespace

std::span<const NamedFilter> order_filters() { return kOrderFilters; }

}  // namespace pagedinfer::jinja
