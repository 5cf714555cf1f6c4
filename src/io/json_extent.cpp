#include "io/json_extent.h"

#include <algorithm>
#include <string>

#include "core/check.h"

namespace pagedinfer {
namespace {

constexpr size_t kMaxDepth = 1024;
constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kScalar =
    "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

using End = JsonExtent::End;

class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  JsonExtent run() {
    for (;;) {
      at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
      if (at_ == text_.size()) return {End::kCutOff, at_};
      const End end = step(text_[at_]);
      if (end != End::kWhole) return {end, at_};
      if (open_.empty()) return {End::kWhole, at_};
    }
  }

 private:
  enum class Want : uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };

  // Consumes the token that begins with `c`; kWhole if the token is complete.
  End step(char c) {
    const Want want = want_;
    if (want == Want::kColon || (want == Want::kCommaOrEnd && c == ',')) {
      if (want == Want::kColon && c != ':') return End::kBroken;
      want_ = want == Want::kCommaOrEnd && open_.back() == '{' ? Want::kKey : Want::kValue;
      ++at_;
      return End::kWhole;
    }
    const bool may_end = want != Want::kValue && want != Want::kKey;
    if (may_end && c == (open_.back() == '{' ? '}' : ']')) {
      open_.pop_back();
      want_ = Want::kCommaOrEnd;
      ++at_;
      return End::kWhole;
    }
    if (want == Want::kCommaOrEnd) return End::kBroken;
    const bool is_key = want == Want::kKey || want == Want::kKeyOrEnd;
    if (c == '"') return take_string(is_key ? Want::kColon : Want::kCommaOrEnd);
    if (is_key) return End::kBroken;
    if (c == '{' || c == '[') {
      if (open_.size() == kMaxDepth) return End::kBroken;
      open_ += c;
      want_ = c == '{' ? Want::kKeyOrEnd : Want::kValueOrEnd;
      ++at_;
      return End::kWhole;
    }
    return take_scalar();
  }

  End take_string(Want next) {
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      if (static_cast<unsigned char>(text_[i]) < 0x20) return End::kBroken;
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == '"') {
        at_ = i + 1;
        want_ = next;
        return End::kWhole;
      }
    }
    return End::kCutOff;
  }

  End take_scalar() {
    const size_t end = std::min(text_.find_first_not_of(kScalar, at_), text_.size());
    if (end == at_) return End::kBroken;
    if (end == text_.size()) return End::kCutOff;
    at_ = end;
    want_ = Want::kCommaOrEnd;
    return End::kWhole;
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::string open_ = {};  // the open brackets, outermost first
  Want want_ = Want::kValue;
};

// Takes a value and the character after it off the text.
std::string_view take_value(std::string_view& text) {
  const JsonExtent extent = scan_json(text);
  CHECK(extent.end == End::kWhole && extent.size < text.size());
  const std::string_view value = text.substr(0, extent.size);
  text.remove_prefix(extent.size + 1);
  return value;
}

}  // namespace

JsonExtent scan_json(std::string_view text) { return Scan(text).run(); }

std::vector<JsonMember> json_members(std::string_view json) {
  std::vector<JsonMember> members;
  json.remove_prefix(1);
  while (json.size() > 1) {
    const std::string_view key = take_value(json);
    members.push_back({key, take_value(json)});
  }
  return members;
}

}  // namespace pagedinfer
