#include <fmt/format.h>

#include <initializer_list>

#include "core/refusal.h"
#include "stats/profile.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

std::string op_row(const std::string& name, std::initializer_list<std::string> cells) {
  std::string out = fmt::format("{:<26}", name);
  for (const std::string& cell : cells) out += fmt::format("{:>9}", cell);
  return out + "\n";
}

// Compares decode steps that replayed a graph with those whose operations were timed one by one.
std::string replay_rows(const Profile& profile) {
  const int64_t queued = profile.decode_steps - profile.replayed_steps;
  const auto mean = [](double seconds, int64_t count) {
    return human_seconds(ratio(seconds, static_cast<double>(count)));
  };
  return fmt::format(
      "             {} replayed a graph, {} each without sampling;\n"
      "             the other {}, {} each, were timed and stand for all\n",
      grouped(profile.replayed_steps), mean(profile.replayed_seconds, profile.replayed_steps),
      grouped(queued), mean(profile.queued_seconds, queued));
}

// Operations below this share of the total time are summed up in one row.
constexpr double kMinShare = 0.001;

std::string op_row(const std::string& name, const OpProfile& op, double seconds) {
  const double tera = 1e-12 * ratio(op.work.flops, op.seconds);
  return op_row(name,
                {grouped(op.calls), human_seconds(op.seconds), percent(ratio(op.seconds, seconds)),
                 three_digits(1e-9 * ratio(op.work.bytes, op.seconds)),
                 op.work.flops > 0 ? fmt::format("{:.3g}", tera) : "-",
                 percent(ratio(op.bound, op.seconds))});
}

void add_op(OpProfile& sum, const OpProfile& op) {
  sum.calls += op.calls;
  sum.work.bytes += op.work.bytes;
  sum.work.flops += op.work.flops;
  sum.seconds += op.seconds;
  sum.bound += op.bound;
}

// The operations of one kind of steps; shares are of `seconds`.
std::string op_rows(const char* heading, const Profile& profile, bool decode_only, int64_t steps,
                    double seconds) {
  if (steps == 0) return "";
  std::string out = op_row(heading, {"calls", "time", "share", "GB/s", "TFLOP/s", "of bound"});
  OpProfile all, small;
  for (const OpProfile& op : profile.ops) {
    if (op.decode_only != decode_only) continue;
    add_op(all, op);
    if (op.seconds < kMinShare * seconds) {
      add_op(small, op);
    } else {
      out += op_row(label_of(op.name), op, seconds);
    }
  }
  if (small.calls > 0) out += op_row("others", small, seconds);
  const double mean = all.seconds / static_cast<double>(steps);
  return out + op_row(fmt::format("all, {} a step", human_seconds(mean)), all, seconds);
}

}  // namespace

std::string profile_table(const Profile& profile) {
  const double seconds = profile.seconds();
  std::string out = fmt::format("profile      {} steps, {} of them of decodes only\n",
                                grouped(profile.steps), grouped(profile.decode_steps));
  const DevicePeaks& peaks = profile.peaks;
  const double int8 = 1e-12 * peaks.int8_flops_per_second;
  out += fmt::format(
      "             device peaks: {} GB/s and {:.3g} TFLOP/s{}, measured at the start\n",
      three_digits(1e-9 * peaks.bytes_per_second), 1e-12 * peaks.flops_per_second,
      int8 > 0 ? fmt::format(", in int8 {:.3g}", int8) : "");
  if (profile.replayed_steps > 0) out += replay_rows(profile);
  out += op_rows("decode steps", profile, true, profile.decode_steps, seconds);
  out += op_rows("other steps", profile, false, profile.steps - profile.decode_steps, seconds);
  out +=
      op_row("gaps between steps", {grouped(profile.gaps.count), human_seconds(profile.gaps.total),
                                    percent(ratio(profile.gaps.total, seconds))});
  out += spread_heading() + spread_row("gap", profile.gaps.spread);
  if (profile.decode_steps > 0) out += spread_row("gap, decode", profile.decode_gaps.spread);
  return out;
}

}  // namespace pagedinfer
