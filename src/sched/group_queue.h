// The groups of one state, oldest first, and the number of their sequences.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "sched/sequence_group.h"

namespace pagedinfer {

class GroupQueue {
 public:
  using Groups = std::map<Age, SequenceGroup>;
  using iterator = Groups::iterator;
  using const_iterator = Groups::const_iterator;

  bool empty() const { return groups_.empty(); }
  size_t size() const { return groups_.size(); }
  // What a walk over all members would count.
  int num_sequences() const { return num_sequences_; }

  // Only change() may change the number of a group's members.
  iterator begin() { return groups_.begin(); }
  iterator end() { return groups_.end(); }
  const_iterator begin() const { return groups_.begin(); }
  const_iterator end() const { return groups_.end(); }
  bool contains(Age age) const { return groups_.contains(age); }
  iterator find(Age age) { return groups_.find(age); }
  const_iterator find(Age age) const { return groups_.find(age); }
  SequenceGroup& at(Age age) { return groups_.at(age); }
  const SequenceGroup& at(Age age) const { return groups_.at(age); }

  // REQUIRES: no group has this age.
  iterator insert(Age age, SequenceGroup group) {
    num_sequences_ += count(group);
    return groups_.emplace_hint(groups_.end(), age, std::move(group));
  }
  iterator insert(Groups::node_type group) {
    num_sequences_ += count(group.mapped());
    return groups_.insert(std::move(group)).position;
  }
  Groups::node_type extract(iterator it) {
    num_sequences_ -= count(it->second);
    return groups_.extract(it);
  }
  void erase(Age age) { extract(groups_.find(age)); }
  void clear() {
    groups_.clear();
    num_sequences_ = 0;
  }

  // Returns change(group).
  template <typename Change>
  auto change(Age age, const Change& change) {
    SequenceGroup& group = groups_.at(age);
    num_sequences_ -= count(group);
    auto result = change(group);
    num_sequences_ += count(group);
    return result;
  }

 private:
  static int count(const SequenceGroup& group) { return static_cast<int>(group.members.size()); }

  Groups groups_;
  int num_sequences_ = 0;
};

}  // namespace pagedinfer
