#include "stats/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pagedinfer {
namespace {

void add_gap(GapProfile& gaps, Histogram& histogram, double seconds) {
  ++gaps.count;
  gaps.total += seconds;
  histogram.add(seconds);
}

// Whether a replayed graph contains the operation.
bool is_replayed(const OpName& name) {
  return name.kind != kSampleName && name.kind != kCopyKvName;
}

}  // namespace

std::string label_of(const OpName& name) {
  std::string label(name.kind);
  if (name.in > 0) label += fmt::format(" {}x{}", name.in, name.out);
  if (name.window > 0) label += fmt::format(", window {}", name.window);
  return label;
}

double Profile::op_seconds() const {
  double sum = 0;
  for (const OpProfile& op : ops) sum += op.seconds;
  return sum;
}

void ProfileReport::add(const TimedStep& step) {
  ++profile_.steps;
  if (step.decode_only) ++profile_.decode_steps;
  for (const TimedOp& op : step.ops) {
    if (op.name.kind == kReplayName) {
      ++profile_.replayed_steps;
      profile_.replayed_seconds += op.seconds;
      continue;
    }
    if (step.decode_only && is_replayed(op.name)) profile_.queued_seconds += op.seconds;
    OpProfile& sum = ops_[{op.name, step.decode_only}];
    ++sum.calls;
    sum.work.bytes += op.work.bytes;
    sum.work.flops += op.work.flops;
    sum.work.int8_flops += op.work.int8_flops;
    sum.seconds += op.seconds;
    sum.bound += bound_of(op.work, profile_.peaks);
  }
  if (!step.gap) return;
  add_gap(profile_.gaps, gaps_, *step.gap);
  if (step.decode_only) add_gap(profile_.decode_gaps, decode_gaps_, *step.gap);
}

Profile ProfileReport::profile() const {
  Profile profile = profile_;
  const int64_t queued = profile.decode_steps - profile.replayed_steps;
  const double scale =
      queued > 0 ? static_cast<double>(profile.decode_steps) / static_cast<double>(queued) : 1;
  for (const auto& [key, sum] : ops_) {
    OpProfile& op = profile.ops.emplace_back(sum);
    op.name = key.first;
    op.decode_only = key.second;
    if (!op.decode_only || !is_replayed(op.name)) continue;
    op.calls = std::llround(static_cast<double>(op.calls) * scale);
    for (double* measure :
         {&op.work.bytes, &op.work.flops, &op.work.int8_flops, &op.seconds, &op.bound}) {
      *measure *= scale;
    }
  }
  std::ranges::stable_sort(profile.ops, std::greater(), &OpProfile::seconds);
  profile.gaps.spread = spread_of(gaps_);
  profile.decode_gaps.spread = spread_of(decode_gaps_);
  const double seconds = profile.seconds();
  for (OpProfile& op : profile.ops) op.share = ratio(op.seconds, seconds);
  return profile;
}

}  // namespace pagedinfer
