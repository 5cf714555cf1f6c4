#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>

#include "stats/profile.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

std::string op_row(const std::string& name, std::initializer_list<std::string> cells) {
  std::string out = fmt::format("{:<26}", name);
  for (const std::string& cell : cells) out += fmt::format("{:>9}", cell);
  return out + "\n";
}

std::string spread_row(const std::string& name, std::initializer_list<std::string> cells) {
  std::string out = fmt::format("{:<13}", name);
  for (const std::string& cell : cells) out += fmt::format("{:>10}", cell);
  return out + "\n";
}

std::string gap_row(const std::string& name, const GapProfile& gaps) {
  const Spread& s = gaps.spread;
  return spread_row(name, {human_seconds(s.mean), human_seconds(s.p50), human_seconds(s.p90),
                           human_seconds(s.p99), human_seconds(s.max)});
}

// Steps of both kinds together, most seconds first.
std::vector<OpProfile> merged(const std::vector<OpProfile>& ops) {
  std::map<OpName, OpProfile> by_name;
  for (const OpProfile& op : ops) {
    OpProfile& sum = by_name[op.name];
    sum.name = op.name;
    sum.calls += op.calls;
    sum.work.bytes += op.work.bytes;
    sum.work.flops += op.work.flops;
    sum.seconds += op.seconds;
    sum.bound += op.bound;
  }
  std::vector<OpProfile> all;
  for (const auto& [name, op] : by_name) all.push_back(op);
  std::ranges::stable_sort(all, std::greater(), &OpProfile::seconds);
  return all;
}

}  // namespace

std::string profile_table(const Profile& profile) {
  const double seconds = profile.seconds();
  std::string out = fmt::format("profile      {} steps, {} of them of decodes only\n",
                                grouped(profile.steps), grouped(profile.decode_steps));
  out += fmt::format("             bound by {} GB/s and {:.3g} TFLOP/s, as measured before\n",
                     three_digits(1e-9 * profile.peaks.bytes_per_second),
                     1e-12 * profile.peaks.flops_per_second);
  out += op_row("operation", {"calls", "time", "share", "GB/s", "TFLOP/s", "of bound"});
  double bound = 0;
  int64_t calls = 0;
  for (const OpProfile& op : merged(profile.ops)) {
    const double tera = 1e-12 * ratio(op.work.flops, op.seconds);
    out += op_row(label_of(op.name), {grouped(op.calls), human_seconds(op.seconds),
                                      percent(ratio(op.seconds, seconds)),
                                      three_digits(1e-9 * ratio(op.work.bytes, op.seconds)),
                                      op.work.flops > 0 ? fmt::format("{:.3g}", tera) : "-",
                                      percent(ratio(op.bound, op.seconds))});
    bound += op.bound;
    calls += op.calls;
  }
  const double op_seconds = profile.op_seconds();
  out += op_row("all of them",
                {grouped(calls), human_seconds(op_seconds), percent(ratio(op_seconds, seconds)), "",
                 "", percent(ratio(bound, op_seconds))});
  out +=
      op_row("gaps between steps", {grouped(profile.gaps.count), human_seconds(profile.gaps.total),
                                    percent(ratio(profile.gaps.total, seconds))});
  out += spread_row("", {"mean", "p50", "p90", "p99", "max"});
  out += gap_row("gap", profile.gaps);
  if (profile.decode_steps > 0) out += gap_row("gap, decode", profile.decode_gaps);
  return out;
}

}  // namespace pagedinfer
