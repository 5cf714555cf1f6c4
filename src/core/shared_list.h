#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace pagedinfer {

// A list whose copies share its memory. A change replaces the whole list and does not affect its
// copies. Several threads may read and drop copies at once.
template <class T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}
  SharedList(std::vector<T> items) {  // implicit, for settings that are set from a vector
    if (!items.empty()) items_ = std::make_shared<const std::vector<T>>(std::move(items));
  }

  const T* data() const { return items_ ? items_->data() : nullptr; }
  size_t size() const { return items_ ? items_->size() : 0; }
  bool empty() const { return size() == 0; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](size_t i) const { return (*items_)[i]; }
  std::vector<T> copy() const { return {begin(), end()}; }
  // Copies the list, so the time is linear in its length.
  void push_back(T item) {
    std::vector<T> items = copy();
    items.push_back(std::move(item));
    *this = std::move(items);
  }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::shared_ptr<const std::vector<T>> items_ = {};  // null: the list is empty
};

}  // namespace pagedinfer
