// The beams of searches as sequences: how they follow one another, what of the cache they share,
// and how they come back when they were preempted. When that happens is the scheduler's to say.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_pool.h"
#include "sched/beam_search.h"
#include "sched/sequence.h"

namespace pagedinfer {

// All beams of one search, in the order of their ages.
using BeamGroup = std::vector<Sequence>;

class BeamGroups {
 public:
  explicit BeamGroups(KvPool& pool) : pool_(pool) {}

  // Leases for beams that were preempted, all or none. Each shares the blocks that are full of what
  // it has in common with an older one, as before: num_shared says how many tokens that are. At
  // least `reserve` positions stay free; the first beam finds what `scope` knows.
  std::optional<std::vector<KvLease>> open(std::span<Sequence* const> beams, int reserve,
                                           ShareScope scope);

  struct Step {
    BeamGroup beams = {};  // that the search goes on with
    bool has_room = true;  // false: they hold what they could get, and must be preempted
    std::optional<Sequence> ended = {};  // the search, if it does not go on
  };
  // Lets the search go on, or begin, with the tokens that were drawn for its beams: their last ones
  // are placeholders. Each beam that it goes on with takes over its parent's lease or forks it.
  // Ends the search with an error if `end_of` gives any beam a reason to end.
  Step step(BeamGroup beams, std::span<const DrawnToken> drawn, const EndOf& end_of,
            const RolesOf& roles_of);

  // Ends the search and closes the leases. The first beam stands for it.
  Sequence end(BeamGroup beams);

  // Forgets all searches.
  void clear() { searches_.clear(); }

 private:
  Step follow(const std::vector<Beam>& next, BeamGroup beams);

  KvPool& pool_;
  std::map<int64_t, BeamSearch> searches_ = {};  // by the age of the first beam
};

}  // namespace pagedinfer
