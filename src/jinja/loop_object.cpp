#include "jinja/loop_object.h"

#include <utility>

namespace pagedinfer::jinja {

LoopObject::LoopObject(Runtime& runtime, const Value& iterable, std::function<Value()> next,
                       int64_t depth0)
    : FunctionObject("LoopContext", "loop", iterable),
      runtime_(runtime),
      iterable_(iterable),
      next_(std::move(next)),
      depth0_(depth0) {
  attribute = [this](std::string_view which) { return attribute_of(which); };
}

void LoopObject::clear() {
  if (!length_ && !iterable_.is_missing()) {
    const Value size = length_of(iterable_);
    length_ = size.is_missing() ? index0_ + 1 : size.as_int();
  }
  iterable_ = current_ = before_ = last_changed_ = Value();
  next_ = nullptr;
  call = nullptr;
  ahead_.clear();
  read_all_ = true;
}

Value LoopObject::peek() {
  if (ahead_.empty() && !read_all_) fetch();
  return ahead_.empty() ? Value() : ahead_.front();
}

bool LoopObject::fetch() {
  Value item = next_();
  read_all_ = item.is_missing();
  if (!read_all_) ahead_.push_back(std::move(item));
  return !read_all_;
}

Value LoopObject::advance() {
  Value item = peek();
  if (item.is_missing()) return item;
  ahead_.pop_front();
  ++index0_;
  before_ = std::exchange(current_, item);
  return item;
}

int64_t LoopObject::length() {
  if (!length_) {
    const Value size = iterable_.is_missing() ? Value() : length_of(iterable_);
    if (!size.is_missing()) {
      length_ = size.as_int();
    } else {
      while (!read_all_ && fetch()) runtime_.budget.spend_values(1);
      length_ = index0_ + 1 + static_cast<int64_t>(ahead_.size());
    }
  }
  return *length_;
}

Value LoopObject::cycle(const Arguments& arguments) const {
  if (!arguments.named.empty() || arguments.positional.empty()) {
    throw TemplateError("loop.cycle() takes one value at least");
  }
  const auto count = static_cast<int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<size_t>(index0_ % count)];
}

Value LoopObject::changed(const Arguments& arguments) {
  if (!arguments.named.empty()) throw TemplateError("loop.changed() takes no names");
  const Value now = runtime_.tuple(arguments.positional);
  const bool same = !last_changed_.is_missing() && equals(last_changed_, now, runtime_.budget);
  last_changed_ = now;
  return Value::boolean(!same);
}

Value LoopObject::method(std::string_view which) {
  const Value self = Value::of(Kind::kFunction, this);
  auto* function = new FunctionObject("method", std::string(which), self);
  function->call = [self, this, is_cycle = which == "cycle"](const Arguments& arguments) {
    return is_cycle ? cycle(arguments) : changed(arguments);
  };
  return Value::of(Kind::kFunction, function);
}

Value LoopObject::attribute_of(std::string_view which) {
  if (which == "index") return Value::integer(index0_ + 1);
  if (which == "index0") return Value::integer(index0_);
  if (which == "first") return Value::boolean(index0_ == 0);
  if (which == "last") return Value::boolean(peek().is_missing());
  if (which == "length") return Value::integer(length());
  if (which == "revindex") return Value::integer(length() - index0_);
  if (which == "revindex0") return Value::integer(length() - index0_ - 1);
  if (which == "depth") return Value::integer(depth0_ + 1);
  if (which == "depth0") return Value::integer(depth0_);
  if (which == "previtem") {
    return before_.is_missing() ? Value::undefined("there is no previous item") : before_;
  }
  if (which == "nextitem") {
    const Value next = peek();
    return next.is_missing() ? Value::undefined("there is no next item") : next;
  }
  if (which == "cycle" || which == "changed") return method(which);
  return {};
}

}  // namespace pagedinfer::jinja
