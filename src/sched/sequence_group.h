// What is scheduled as one: leased, grown, preempted, committed and ended together.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kv/kv_pool.h"
#include "sched/beam_search.h"
#include "sched/sequence.h"
#include "sched/step_plan.h"

namespace pagedinfer {

// The rows of a step that draw for one group, or score its prompt.
struct DrawnRows {
  int first = 0;  // of the rows, among all of the step
  std::span<const Draw> draws = {};
  std::span<const DrawnToken> drawn = {};
};

// A request that has drawn no token yet, with one sequence that stands for all its samples or
// beams; later one of its samples, or all its beams. The scheduler decides when each of its
// functions is called.
struct SequenceGroup {
  std::vector<Sequence> members;          // one, or the beams of a search
  std::optional<BeamSearch> search = {};  // from the first token on, if the request asks for one

  Sequence& first() { return members.front(); }
  // REQUIRES: this sample is a member.
  const Sequence& member(int sample) const { return members.at(index_of(sample)); }
  Sequence& member(int sample) { return members.at(index_of(sample)); }

  // The number of sequences that the group has, or will have when its first token is drawn.
  int num_places() const;
  // Whether each member has one token to compute, and then draws the next.
  bool is_decoding() const;

  // Preempted beams compute their lost tokens again, except the last one, which they decode
  // together. So these are the tokens that a member computes in chunks: their end, and how many of
  // them are pending once the first `num_cached` tokens are known to be in the cache.
  int end_of_chunks(const Sequence& seq) const { return seq.num_wanted() - search.has_value(); }
  int num_pending(const Sequence& seq, int num_cached) const {
    return seq.num_pending_after(num_cached) - search.has_value();
  }

  // Opens a lease for each member, or none. Each beam shares full blocks with the older beam that
  // has the longest common prefix; num_shared becomes the number of tokens in them. The first
  // member shares the blocks that `scope` knows. At least `reserve` positions stay free.
  [[nodiscard]] bool lease(KvPool& pool, int reserve, ShareScope scope);

  // Makes room for all known tokens. On false some members may have grown.
  [[nodiscard]] bool grow(KvPool& pool);

  // Lets other sequences find the blocks that are computed.
  void publish(KvPool& pool);

  // Closes the leases of all members.
  void close(KvPool& pool);

  // Gives up what is computed, which must be computed again later.
  void preempt(KvPool& pool);

  struct Committed {
    std::optional<Sequence> ended = {};  // the result if the group has ended
    bool has_room = true;                // false: some beams got no lease; preempt the group
    int num_surplus = 0;                 // tokens that were dropped
  };
  // Takes the tokens that were drawn for the group. Drops the tokens after a wrong guess and after
  // the end. A search replaces its beams by the best continuations: each takes over its parent's
  // lease or forks it. The search ends with an error if `end_of` gives any beam a reason to end.
  Committed commit(KvPool& pool, const DrawnRows& rows, const EndOf& end_of,
                   const RolesOf& roles_of);

  // Closes the leases and returns the first member, which stands for the group.
  Sequence end(KvPool& pool);

 private:
  size_t index_of(int sample) const { return static_cast<size_t>(sample - members.front().sample); }
  Committed take_tokens(KvPool& pool, const DrawnRows& rows, const EndOf& end_of);
  Committed step_search(KvPool& pool, const DrawnRows& rows, const EndOf& end_of,
                        const RolesOf& roles_of);
  bool follow(KvPool& pool, const std::vector<Beam>& next);
  const Sequence* share_with_older(size_t beam, int block_size);
};

}  // namespace pagedinfer
