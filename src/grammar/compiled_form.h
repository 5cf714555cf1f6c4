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
  bool is_shared() const { return impl_.use_count() > 1; }
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace pagedinfer
