#include "sched/sequence_group.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace pagedinfer {
namespace {

// Stores a drawn token. Returns false if a different token was guessed at this position.
bool take_token(Sequence& seq, int position, TokenId token) {
  if (seq.tokens.back() < 0) {
    CHECK(seq.num_known() == position + 1);
    seq.tokens.back() = token;
    return true;
  }
  CHECK(seq.num_known() == position);
  seq.advance(1);
  if (seq.num_drafted == 0) {
    seq.tokens.push_back(token);
    return true;
  }
  const TokenId guess = std::exchange(seq.tokens[position], token);
  --seq.num_drafted;
  if (guess == token) return true;
  seq.drop_drafts();
  return false;
}

}  // namespace

int SequenceGroup::num_places() const {
  if (members.front().num_generated() > 0) return static_cast<int>(members.size());
  const Request& request = *members.front().request;
  return std::max(request.num_samples, request.sampling.beams.width);
}

bool SequenceGroup::is_decoding() const {
  return std::ranges::all_of(members, [](const Sequence& seq) { return seq.is_decoding(); });
}

bool SequenceGroup::lease(KvPool& pool, int reserve, ShareScope scope) {
  bool has_room = true;
  for (size_t i = 0; i < members.size() && has_room; ++i) {
    Sequence& seq = members[i];
    std::optional<KvLease> lease;
    if (const Sequence* const older = share_with_older(i, pool.block_size())) {
      lease = pool.fork(older->lease, seq.num_shared);
      if (lease && !pool.grow(*lease, seq.num_shared, seq.num_known())) {
        pool.close(*lease);
        lease.reset();
      }
    } else {
      lease = pool.open(std::span(seq.tokens).first(static_cast<size_t>(seq.num_wanted())), reserve,
                        i == 0 ? scope : kShareNone);
    }
    has_room = lease.has_value();
    if (has_room) seq.lease = *std::move(lease);
    if (search) seq.lease.scope = kShareNone;  // others must not adopt in place of what is shared
  }
  const std::optional<int64_t> free = pool.free_tokens();
  has_room = has_room && (!free || *free >= reserve);
  if (!has_room) close(pool);
  return has_room;
}

// Returns the older beam that has the longest common prefix, and sets num_shared to the number of
// tokens in its full blocks; null if there is no such block.
const Sequence* SequenceGroup::share_with_older(size_t beam, int block_size) {
  Sequence& seq = members[beam];
  const Sequence* relative = nullptr;
  seq.num_shared = 0;
  for (size_t older = 0; older < beam; ++older) {
    const auto common = std::ranges::mismatch(seq.tokens, members[older].tokens).in1;
    const auto num_common = static_cast<int>(common - seq.tokens.begin());
    const int shared = num_common / block_size * block_size;
    if (shared <= seq.num_shared) continue;
    seq.num_shared = shared;
    relative = &members[older];
  }
  return relative;
}

bool SequenceGroup::grow(KvPool& pool) {
  return std::ranges::all_of(members, [&](Sequence& seq) {
    return pool.grow(seq.lease, seq.num_computed, seq.num_known());
  });
}

void SequenceGroup::publish(KvPool& pool) {
  for (Sequence& seq : members) {
    std::vector<PublishedBlock> published;  // filled by a step that has not failed
    pool.publish(seq.lease, std::span(seq.tokens).first(seq.num_computed), published);
  }
}

void SequenceGroup::close(KvPool& pool) {
  for (Sequence& seq : members) pool.close(seq.lease);
}

void SequenceGroup::preempt(KvPool& pool) {
  close(pool);
  for (Sequence& seq : members) {
    seq.drop_drafts();
    ++seq.num_preemptions;
    seq.num_computed = seq.num_shared = 0;
  }
}

SequenceGroup::Committed SequenceGroup::commit(KvPool& pool, const DrawnRows& rows,
                                               const EndOf& end_of, const RolesOf& roles_of) {
  return first().is_beam() ? step_search(pool, rows, end_of, roles_of)
                           : take_tokens(pool, rows, end_of);
}

SequenceGroup::Committed SequenceGroup::take_tokens(KvPool& pool, const DrawnRows& rows,
                                                    const EndOf& end_of) {
  Committed result;
  Sequence& seq = first();
  bool goes_on = true;
  for (size_t i = 0; i < rows.draws.size(); ++i) {
    if (rows.draws[i].scores) continue;
    if (!goes_on) {
      ++result.num_surplus;
      continue;
    }
    const TokenId latest = seq.tokens.back();
    CHECK(latest >= 0 || latest == -1 - rows.first - static_cast<TokenId>(i));
    goes_on = take_token(seq, rows.draws[i].position, rows.drawn[i].token);
    seq.finished = end_of(seq, rows.drawn[i]);
    CHECK(seq.finished || seq.num_known() < seq.max_tokens);
    goes_on = goes_on && !seq.finished;
  }
  if (seq.finished) result.ended = end(pool);
  return result;
}

SequenceGroup::Committed SequenceGroup::step_search(KvPool& pool, const DrawnRows& rows,
                                                    const EndOf& end_of, const RolesOf& roles_of) {
  CHECK(members.size() == rows.drawn.size());
  bool fails = false;
  std::vector<BeamSearch::Candidates> candidates;
  for (size_t i = 0; i < members.size(); ++i) {
    Sequence& seq = members[i];
    CHECK(std::exchange(seq.tokens.back(), rows.drawn[i].token) < 0);
    fails = end_of(seq, rows.drawn[i]).has_value() || fails;
    seq.tokens.pop_back();
    candidates.push_back(rows.drawn[i].candidates);
  }
  if (!search) {
    const int max_tokens = first().max_tokens - first().num_prompt();
    search.emplace(first().request->sampling.beams, max_tokens);
  }
  if (!fails) search->step(candidates, roles_of(first()));
  if (!fails && !search->is_done()) return {.has_room = follow(pool, search->running())};

  std::vector<FinishedBeam> found = fails ? std::vector<FinishedBeam>() : search->finished();
  Sequence ended = end(pool);
  ended.finished = found.empty() ? FinishReason::kError : found.front().reason;
  ended.found_beams = std::move(found);
  return {.ended = std::move(ended)};
}

// The first continuation of a beam takes over its lease; the others fork it. Returns false if one
// of them found no room.
bool SequenceGroup::follow(KvPool& pool, const std::vector<Beam>& next) {
  std::vector<Sequence> beams = std::exchange(members, {});
  std::vector<const Beam*> heirs(beams.size());
  for (const Beam& beam : next) {
    const Beam*& heir = heirs[static_cast<size_t>(beam.parent)];
    if (heir == nullptr) heir = &beam;
  }
  // The counts of beams that die; the first of the next beams takes them over.
  int num_found = 0;
  int64_t num_recomputed = 0;
  for (size_t i = 0; i < beams.size(); ++i) {
    if (heirs[i] != nullptr) continue;
    pool.close(beams[i].lease);
    num_found += beams[i].num_found;
    num_recomputed += beams[i].num_recomputed;
  }
  bool has_room = true;
  for (const Beam& beam : next) {
    const Sequence& parent = beams[static_cast<size_t>(beam.parent)];
    Sequence& child = members.emplace_back(parent);
    child.sample = static_cast<int>(members.size()) - 1;
    child.tokens.push_back(beam.tokens.back());
    if (heirs[static_cast<size_t>(beam.parent)] == &beam) continue;
    child.lease = {};
    child.num_found = 0;
    child.num_recomputed = 0;
    std::optional<KvLease> lease;
    if (has_room) lease = pool.fork(parent.lease, parent.num_computed);
    has_room = lease.has_value();
    if (lease) child.lease = std::move(*lease);
  }
  first().num_found += num_found;
  first().num_recomputed += num_recomputed;
  return has_room;
}

Sequence SequenceGroup::end(KvPool& pool) {
  close(pool);
  for (size_t i = 1; i < members.size(); ++i) {
    first().num_found += members[i].num_found;
    first().num_recomputed += members[i].num_recomputed;
  }
  return std::move(first());
}

}  // namespace pagedinfer
