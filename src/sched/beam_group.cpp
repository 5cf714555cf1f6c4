#include "sched/beam_group.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace pagedinfer {

std::optional<std::vector<KvLease>> BeamGroups::open(std::span<Sequence* const> beams, int reserve,
                                                     ShareScope scope) {
  std::vector<KvLease> leases;
  const auto open_one = [&](const Sequence& seq, const KvLease* relative) {
    if (relative == nullptr) {
      return pool_.open(seq.tokens, reserve, leases.empty() ? scope : kShareNone);
    }
    std::optional<KvLease> lease = pool_.fork(*relative, seq.num_shared);
    if (lease && !pool_.grow(*lease, seq.num_shared, seq.num_known())) {
      pool_.close(*lease);
      lease.reset();
    }
    return lease;
  };
  bool fits = true;
  for (size_t i = 0; i < beams.size() && fits; ++i) {
    Sequence& seq = *beams[i];
    const KvLease* relative = nullptr;
    seq.num_shared = 0;
    for (size_t older = 0; older < i; ++older) {
      const auto common = std::ranges::mismatch(seq.tokens, beams[older]->tokens).in1;
      const auto num_common = static_cast<int>(common - seq.tokens.begin());
      const int shared = num_common / pool_.block_size() * pool_.block_size();
      if (shared <= seq.num_shared) continue;
      seq.num_shared = shared;
      relative = &leases[older];
    }
    std::optional<KvLease> lease = open_one(seq, relative);
    fits = lease.has_value();
    if (fits) leases.push_back(std::move(*lease));
    if (fits) leases.back().scope = kShareNone;  // others must not adopt in place of what is shared
  }
  const std::optional<int64_t> free = pool_.free_tokens();
  if (fits && (!free || *free >= reserve)) return leases;
  for (KvLease& lease : leases) pool_.close(lease);
  return std::nullopt;
}

BeamGroups::Step BeamGroups::step(BeamGroup beams, std::span<const DrawnToken> drawn,
                                  const EndOf& end_of, const RolesOf& roles_of) {
  CHECK(beams.size() == drawn.size());
  bool fails = false;
  std::vector<BeamSearch::Candidates> candidates;
  for (size_t i = 0; i < beams.size(); ++i) {
    Sequence& seq = beams[i];
    CHECK(std::exchange(seq.tokens.back(), drawn[i].token) < 0);
    fails = end_of(seq, drawn[i]).has_value() || fails;
    seq.tokens.pop_back();
    candidates.push_back(drawn[i].candidates);
  }
  const Sequence& first = beams.front();
  const int max_tokens = first.max_tokens - first.num_prompt();
  BeamSearch& search =
      searches_.try_emplace(first.first_age(), first.request->sampling.beams, max_tokens)
          .first->second;
  if (!fails) search.step(candidates, roles_of(first));
  if (!fails && !search.is_done()) return follow(search.running(), std::move(beams));

  std::vector<FinishedBeam> found = fails ? std::vector<FinishedBeam>() : search.finished();
  Step result = {.ended = end(std::move(beams))};
  result.ended->finished = found.empty() ? FinishReason::kError : found.front().reason;
  result.ended->found_beams = std::move(found);
  return result;
}

// The first continuation of a beam takes over its lease; the others fork it.
BeamGroups::Step BeamGroups::follow(const std::vector<Beam>& next, BeamGroup beams) {
  const int64_t first_age = beams.front().first_age();
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
    pool_.close(beams[i].lease);
    num_found += beams[i].num_found;
    num_recomputed += beams[i].num_recomputed;
  }
  Step result;
  for (const Beam& beam : next) {
    const Sequence& parent = beams[static_cast<size_t>(beam.parent)];
    Sequence& child = result.beams.emplace_back(parent);
    child.sample = static_cast<int>(result.beams.size()) - 1;
    child.age = first_age + child.sample;
    child.tokens.push_back(beam.tokens.back());
    if (heirs[static_cast<size_t>(beam.parent)] == &beam) continue;
    child.lease = {};
    child.num_found = 0;
    child.num_recomputed = 0;
    std::optional<KvLease> lease;
    if (result.has_room) lease = pool_.fork(parent.lease, parent.num_computed);
    result.has_room = lease.has_value();
    if (lease) child.lease = std::move(*lease);
  }
  result.beams.front().num_found += num_found;
  result.beams.front().num_recomputed += num_recomputed;
  return result;
}

Sequence BeamGroups::end(BeamGroup beams) {
  Sequence& first = beams.front();
  for (Sequence& beam : beams) {
    pool_.close(beam.lease);
    if (&beam == &first) continue;
    first.num_found += beam.num_found;
    first.num_recomputed += beam.num_recomputed;
  }
  searches_.erase(first.first_age());
  return std::move(first);
}

}  // namespace pagedinfer
