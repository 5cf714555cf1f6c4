#include "stats/profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace pagedinfer {
namespace {

void add_gap(GapProfile& gaps, Histogram& histogram, double seconds) {
  ++gaps.count;
  gaps.total += seconds;
  histogram.add(seconds);
}

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kEmbed: return "embed";
    case OpKind::kRopeTable: return "rope table";
    case OpKind::kRmsNorm: return "norm";
    case OpKind::kAdd: return "add";
    case OpKind::kAddRmsNorm: return "add and norm";
    case OpKind::kAddBias: return "add bias";
    case OpKind::kMatmul: return "matmul";
    case OpKind::kRope: return "rope";
    case OpKind::kGate: return "gate";
    case OpKind::kWriteKv: return "write kv";
    case OpKind::kRotateAndWriteKv: return "rotate and write kv";
    case OpKind::kAttention: return "attention";
    case OpKind::kGatherRows: return "gather rows";
    case OpKind::kSample: return "sample";
  }
  return "";
}

}  // namespace

std::string label_of(const OpName& name) {
  std::string label = name_of(name.kind);
  if (name.kind == OpKind::kMatmul) label += fmt::format(" {}x{}", name.in, name.out);
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
    OpProfile& sum = ops_[{op.name, step.decode_only}];
    ++sum.calls;
    sum.work.bytes += op.work.bytes;
    sum.work.flops += op.work.flops;
    sum.seconds += op.seconds;
    sum.bound += bound_of(op.work, profile_.peaks);
  }
  if (!step.gap) return;
  add_gap(profile_.gaps, gaps_, *step.gap);
  if (step.decode_only) add_gap(profile_.decode_gaps, decode_gaps_, *step.gap);
}

Profile ProfileReport::profile() const {
  Profile profile = profile_;
  for (const auto& [key, sum] : ops_) {
    OpProfile& op = profile.ops.emplace_back(sum);
    op.name = key.first;
    op.decode_only = key.second;
  }
  std::ranges::stable_sort(profile.ops, std::greater(), &OpProfile::seconds);
  profile.gaps.spread = spread_of(gaps_);
  profile.decode_gaps.spread = spread_of(decode_gaps_);
  return profile;
}

}  // namespace pagedinfer
