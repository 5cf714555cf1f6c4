// How a function says that a line has no completion.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "core/error_code.h"

namespace pagedinfer {

// Why a line has no completion.
struct RequestError {
  ErrorCode code = {};
  std::string message = {};              // a sentence
  std::optional<std::string> text = {};  // of the completion, up to where it could not go on
};

// A value, or the error that takes its place. Result<> is the outcome of a check, which has no
// value.
template <class T = std::monostate>
class [[nodiscard]] Result {
 public:
  Result() requires std::same_as<T, std::monostate>
  = default;
  Result(T value) : content_(std::move(value)) {}
  Result(RequestError error) : content_(std::move(error)) {}
  Result(ErrorCode code, std::string message) : Result(RequestError{code, std::move(message)}) {}

  explicit operator bool() const { return std::holds_alternative<T>(content_); }

  // REQUIRES: there is a value.
  T& operator*() { return std::get<T>(content_); }
  const T& operator*() const { return std::get<T>(content_); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  // REQUIRES: there is an error.
  RequestError& error() { return std::get<RequestError>(content_); }
  const RequestError& error() const { return std::get<RequestError>(content_); }

 private:
  std::variant<T, RequestError> content_;
};

}  // namespace pagedinfer
