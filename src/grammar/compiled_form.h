#pragma once

#include <cstdint>
#include <memory>

namespace pagedinfer {

// A form that was compiled for a vocabulary. Copies share it; they may be used by several threads.
class CompiledForm {
 public:
  struct Impl;
  explicit CompiledForm(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  int num_words() const;      // of a mask: a bit for each token
  int64_t num_bytes() const;  // of memory
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace pagedinfer
