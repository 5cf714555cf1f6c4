// The beams of searches as sequences: how they follow one another, which cache blocks they share,
// and how they come back after a preemption. The scheduler decides when each of this happens.
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

  // Opens leases for all beams of a preempted search, or for none. Each beam shares full blocks
  // with the older beam that has the longest common prefix; num_shared becomes the number of tokens
  // in them. The first beam shares the blocks that `scope` knows. At least `reserve` positions stay
  // free.
  std::optional<std::vector<KvLease>> open(std::span<Sequence* const> beams, int reserve,
                                           ShareScope scope);

  struct Step {
    BeamGroup beams = {};  // the next beams of the search
    bool has_room = true;  // false: some beams got no lease, and all must be preempted
    std::optional<Sequence> ended = {};  // the result of the search if it has ended
  };
  // Begins or continues the search with the tokens that were drawn for its beams. Each of the next
  // beams takes over its parent's lease or forks it. Ends the search with an error if `end_of`
  // gives any beam a reason to end. REQUIRES: the last token of each beam is a placeholder.
  Step step(BeamGroup beams, std::span<const DrawnToken> drawn, const EndOf& end_of,
            const RolesOf& roles_of);

  // Ends the search, closes the leases and returns the first beam, which stands for the search.
  Sequence end(BeamGroup beams);

  // Forgets all searches.
  void clear() { searches_.clear(); }

 private:
  Step follow(const std::vector<Beam>& next, BeamGroup beams);

  KvPool& pool_;
  std::map<int64_t, BeamSearch> searches_ = {};  // by the age of the first beam
};

}  // namespace pagedinfer
