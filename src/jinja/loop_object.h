#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string_view>

#include "jinja/runtime.h"

namespace pagedinfer::jinja {

// The variable `loop` of a loop. It reads ahead only when a template asks what comes.
struct LoopObject : FunctionObject {
  // `iterable`: of a loop without a condition; its length is the loop's.
  LoopObject(Runtime& runtime, const Value& iterable, std::function<Value()> next, int64_t depth0);

  // Goes to the next item. Missing at the end.
  Value advance();

  // Lets go of all items at the end of a loop: a template may keep the object for longer.
  class End {
   public:
    explicit End(LoopObject& loop) : loop_(loop) {}
    ~End() { loop_.clear(); }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

   private:
    LoopObject& loop_;
  };

 private:
  void clear();
  Value peek();  // the next item; missing at the end
  bool fetch();  // reads one more item ahead; false at the end
  int64_t length();
  Value attribute_of(std::string_view which);
  Value cycle(const Arguments& arguments) const;
  Value changed(const Arguments& arguments);
  Value method(std::string_view which);

  Runtime& runtime_;
  Value iterable_;
  std::function<Value()> next_;
  int64_t depth0_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_ = {};
  std::deque<Value> ahead_ = {};  // read, and not yet reached
  bool read_all_ = false;
  Value current_ = {}, before_ = {}, last_changed_ = {};
};

}  // namespace pagedinfer::jinja
