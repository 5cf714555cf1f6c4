// The sums, the table and the JSON line of timed steps.
#include <doctest/doctest.h>

#include <sstream>

#include "stats/lines.h"
#include "stats/profile.h"
#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

constexpr DevicePeaks kPeaks = {.bytes_per_second = 1e9, .flops_per_second = 2e9};
constexpr OpName kGate = {"gate"};
constexpr OpName kProduct = {.kind = "matmul", .in = 64, .out = 192};

TimedStep step(bool decode_only, std::optional<double> gap, std::vector<TimedOp> ops) {
  return {.decode_only = decode_only, .ops = std::move(ops), .gap = gap};
}

// Two prefills, the second of which came after a time without work, and two decodes.
Profile small_profile() {
  ProfileReport report(kPeaks);
  report.add(step(false, std::nullopt,
                  {{kGate, {.bytes = 1e9}, 4}, {kProduct, {.bytes = 1e9, .flops = 8e9}, 8}}));
  report.add(step(true, 0.25, {{kProduct, {.bytes = 1e9, .flops = 1e9}, 2}}));
  report.add(step(true, 0.75, {{kProduct, {.bytes = 1e9, .flops = 1e9}, 3}}));
  report.add(step(false, std::nullopt, {{kGate, {.bytes = 3e9}, 5}}));
  report.add(step(false, 2, {}));
  return report.profile();
}

}  // namespace

TEST_CASE("profile: calls, seconds, work and bounds add up, decode steps apart") {
  const Profile profile = small_profile();
  CHECK(profile.steps == 5);
  CHECK(profile.decode_steps == 2);
  CHECK(profile.op_seconds() == 22);
  CHECK(profile.seconds() == 25);
  CHECK(profile.gaps.count == 3);
  CHECK(profile.gaps.total == 3);
  CHECK(profile.gaps.spread.max == 2);
  CHECK(profile.gaps.spread.mean == 1);
  CHECK(profile.decode_gaps.count == 2);
  CHECK(profile.decode_gaps.total == 1);
  CHECK(profile.decode_gaps.spread.max == 0.75);

  REQUIRE(profile.ops.size() == 3);  // most seconds first
  const OpProfile& prefill_gate = profile.ops[0];
  CHECK(prefill_gate.name == kGate);
  CHECK(prefill_gate.calls == 2);
  CHECK(prefill_gate.seconds == 9);
  CHECK(prefill_gate.work.bytes == 4e9);
  CHECK(prefill_gate.bound == 4);
  CHECK(profile.ops[1].name == kProduct);
  CHECK_FALSE(profile.ops[1].decode_only);
  CHECK(profile.ops[1].bound == 4);  // by its flops
  CHECK(profile.ops[2].decode_only);
  CHECK(profile.ops[2].calls == 2);
  CHECK(profile.ops[2].seconds == 5);
  CHECK(profile.ops[2].bound == 2);  // by its bytes, call by call
}

TEST_CASE("profile: the table has a row for each operation, the slowest first, and the gaps") {
  const std::string expected =
      "profile      5 steps, 2 of them of decodes only\n"
      "             device peaks: 1.00 GB/s and 0.002 TFLOP/s, measured at the start\n"
      "decode steps                  calls     time    share     GB/s  TFLOP/s of bound\n"
      "matmul 64x192                     2   5.00 s   20.0 %     0.40   0.0004   40.0 %\n"
      "all, 2.50 s a step                2   5.00 s   20.0 %     0.40   0.0004   40.0 %\n"
      "other steps                   calls     time    share     GB/s  TFLOP/s of bound\n"
      "gate                              2   9.00 s   36.0 %     0.44        -   44.4 %\n"
      "matmul 64x192                     1   8.00 s   32.0 %     0.12    0.001   50.0 %\n"
      "all, 5.67 s a step                3   17.0 s   68.0 %     0.29 0.000471   47.1 %\n"
      "gaps between steps                3   3.00 s   12.0 %\n"
      "                   mean       p50       p90       p99       max\n"
      "gap              1.00 s    750 ms    2.00 s    2.00 s    2.00 s\n"
      "gap, decode      500 ms    251 ms    750 ms    750 ms    750 ms\n";
  CHECK(profile_table(small_profile()) == expected);
}

TEST_CASE("profile: operations of hardly any time share a row, and nothing has none") {
  ProfileReport report(kPeaks);
  report.add(step(false, std::nullopt,
                  {{kProduct, {.bytes = 1e9}, 10},
                   {kGate, {.bytes = 1e6}, 0.004},
                   {{"add"}, {.bytes = 1e6}, 0.006}}));
  const std::string table = profile_table(report.profile());
  CHECK(table.find(
            "others                            2  10.0 ms    0.1 %     0.20        -   20.0 %") !=
        std::string::npos);
  CHECK(table.find("gate") == std::string::npos);
  CHECK(table.find("decode") == table.rfind("decode"));  // of the steps' count only
}

TEST_CASE("profile: no line of the table is longer than 80 columns") {
  ProfileReport report({.bytes_per_second = 4.3e12, .flops_per_second = 790e12});
  for (int i = 0; i < 2000; ++i) {
    report.add(step(true, 0.01,
                    {{{"matmul", 16384, 262144}, {.bytes = 1e12, .flops = 1e14}, 0.3},
                     {{"attention", 0, 0, 4096}, {.bytes = 1e12, .flops = 1e14}, 0.2}}));
  }
  Profile replayed = report.profile();
  replayed.decode_steps = replayed.replayed_steps = 123456789;
  for (const Profile& profile : {report.profile(), small_profile(), replayed, Profile{}}) {
    std::istringstream table(profile_table(profile));
    for (std::string line; std::getline(table, line);) {
      INFO(line);
      CHECK(line.size() <= 80);
    }
  }
}

TEST_CASE("profile: what was timed of decode steps stands for those that were replayed") {
  ProfileReport report(kPeaks);
  const OpName sample = {kSampleName}, replay = {kReplayName};
  const TimedOp sampled = {sample, {.bytes = 1e9}, 1};
  for (int i = 0; i < 6; ++i) report.add(step(true, 0.5, {{replay, {}, 2}, sampled}));
  for (int i = 0; i < 2; ++i) {
    report.add(step(true, 0.5, {{kProduct, {.bytes = 1e9}, 3}, {kGate, {}, 1}, sampled}));
  }
  report.add(step(false, 0.5, {{kProduct, {.bytes = 1e9}, 5}}));
  const Profile profile = report.profile();
  CHECK(profile.steps == 9);
  CHECK(profile.decode_steps == 8);
  CHECK(profile.replayed_steps == 6);
  CHECK(profile.replayed_seconds == 12);
  CHECK(profile.queued_seconds == 8);
  const auto found = [&](const OpName& name, bool decode_only) {
    for (const OpProfile& op : profile.ops) {
      if (op.name == name && op.decode_only == decode_only) return op;
    }
    return OpProfile{};
  };
  CHECK(found(kProduct, true).calls == 8);
  CHECK(found(kProduct, true).seconds == 24);
  CHECK(found(kProduct, true).bound == 8);
  CHECK(found(kProduct, false).calls == 1);
  CHECK(found(kProduct, false).seconds == 5);
  CHECK(found(sample, true).calls == 8);  // timed in every step
  CHECK(found(sample, true).seconds == 8);
  CHECK(found(replay, true).calls == 0);
  const std::string table = profile_table(profile);
  CHECK(table.find("6 replayed a graph, 2.00 s each") != std::string::npos);
  CHECK(table.find("the other 2, 4.00 s each") != std::string::npos);
}

TEST_CASE("profile: the summary has every number of it") {
  const auto written = [](const std::optional<Profile>& profile) {
    std::string out;
    append_summary(out, {}, {}, {}, profile);
    REQUIRE(out.find('\n') == out.size() - 1);
    return Json(out);
  };
  const Json line(written(small_profile())["/profile"]);
  CHECK(line.number("/peak_gb_per_s") == 1);
  CHECK(line.number("/peak_tflop_per_s") == 0.002);
  CHECK(line.integer("/steps") == 5);
  CHECK(line.integer("/decode_steps") == 2);
  CHECK(line.integer("/replayed_steps") == 0);
  CHECK(line.number("/queued_decode_s") == 5);
  CHECK(line.number("/op_s") == 22);
  CHECK(line.number("/gap_s") == 3);
  CHECK(line.number("/mean_gap_ms") == 1000);
  CHECK(line.number("/max_decode_gap_ms") == 750);
  CHECK(line.text("/ops/0/op") == "gate");
  CHECK(line["/ops/0/decode_only"] == "false");
  CHECK(line.text("/ops/2/op") == "matmul 64x192");
  CHECK(line["/ops/2/decode_only"] == "true");
  CHECK(line.integer("/ops/2/calls") == 2);
  CHECK(line.number("/ops/2/time_s") == 5);
  CHECK(line.number("/ops/2/share") == 0.2);
  CHECK(line.number("/ops/2/bytes") == 2e9);
  CHECK(line.number("/ops/2/flops") == 2e9);
  CHECK(line.number("/ops/2/gb_per_s") == 0.4);
  CHECK(line.number("/ops/2/tflop_per_s") == 0.0004);
  CHECK(line.number("/ops/2/bound_s") == 2);
  CHECK(line.number("/ops/2/of_bound") == 0.4);

  CHECK(written(Profile())["/profile/ops"] == "[]");
  CHECK_FALSE(written({}).has("/profile"));
}

TEST_CASE("profile: labels tell apart what is timed apart") {
  CHECK(label_of(kProduct) == "matmul 64x192");
  CHECK(label_of({.kind = "attention"}) == "attention");
  CHECK(label_of({.kind = "attention", .window = 512}) == "attention, window 512");
}

}  // namespace pagedinfer
