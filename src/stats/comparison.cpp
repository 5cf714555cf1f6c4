#include "stats/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "stats/table.h"

namespace pagedinfer {
namespace {

using Unit = Figure::Unit;

constexpr Figure kFigures[] = {
    {"duration", "duration", [](const Summary& s) { return s.duration; }, Unit::kSeconds, true},
    {"request_throughput", "requests/s", [](const Summary& s) { return s.request_throughput; },
     Unit::kPerSecond, true},
    {"output_throughput", "tokens/s out", [](const Summary& s) { return s.output_throughput; },
     Unit::kPerSecond, true},
    {"p50_ttft_ms", "TTFT p50", [](const Summary& s) { return s.ttft.p50; }, Unit::kSeconds, true},
    {"p99_ttft_ms", "TTFT p99", [](const Summary& s) { return s.ttft.p99; }, Unit::kSeconds, true},
    {"p50_itl_ms", "ITL p50", [](const Summary& s) { return s.itl.p50; }, Unit::kSeconds, true},
    {"p99_itl_ms", "ITL p99", [](const Summary& s) { return s.itl.p99; }, Unit::kSeconds, true},
    {"p99_e2el_ms", "E2EL p99", [](const Summary& s) { return s.e2e.p99; }, Unit::kSeconds, true},
    {"running_mean", "running mean", [](const Summary& s) { return s.mean_running; },
     Unit::kPerSecond, false},
    {"running_peak", "running peak",
     [](const Summary& s) { return static_cast<double>(s.peak_running); }, Unit::kCount, false},
    {"preemptions", "preemptions",
     [](const Summary& s) { return static_cast<double>(s.preemptions); }, Unit::kCount, false},
    {"kv_use_peak", "cache peak", [](const Summary& s) { return s.kv_use_peak; }, Unit::kShare,
     false},
};

std::vector<double> values_of(const ComparedRuns& runs, const Figure& figure) {
  std::vector<double> values;
  for (const Summary& summary : runs.runs) values.push_back(figure.get(summary));
  return values;
}

std::string text_of(const Figure& figure, double value) {
  switch (figure.unit) {
    case Unit::kSeconds: return human_seconds(value);
    case Unit::kPerSecond: return three_digits(value);
    case Unit::kCount: return grouped(static_cast<int64_t>(value + 0.5));
    case Unit::kShare: return percent(value);
  }
  return "";
}

std::string row(std::string_view name, const std::vector<std::string>& cells) {
  std::string out = fmt::format("{:<13}", name);
  for (const std::string& cell : cells) out += fmt::format("{:>12}", cell);
  return out + "\n";
}

std::string ratio_row(const RatioToFirst& of) {
  const PairedRatio& ratio = of.ratio;
  std::vector<std::string> cells = {fmt::format("{:.3f}", ratio.median),
                                    fmt::format("{:.3f}", ratio.mean)};
  if (ratio.low) cells.push_back(fmt::format("  {:.3f} to {:.3f}", *ratio.low, *ratio.high));
  return row(of.figure->label, cells);
}

}  // namespace

std::span<const Figure> figures() { return kFigures; }

size_t median_run(const ComparedRuns& runs) {
  std::vector<size_t> order(runs.runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return runs.runs[i].duration; });
  return order[(order.size() - 1) / 2];
}

std::vector<RatioToFirst> ratios_to_first(const std::vector<ComparedRuns>& all) {
  std::vector<RatioToFirst> ratios;
  for (size_t i = 1; i < all.size(); ++i) {
    for (const Figure& figure : kFigures) {
      if (!figure.has_ratio) continue;
      const auto ratio = paired_ratio(values_of(all[i], figure), values_of(all.front(), figure));
      if (ratio) ratios.push_back({i, &figure, *ratio});
    }
  }
  return ratios;
}

std::string comparison_table(const std::vector<ComparedRuns>& all) {
  std::string out;
  std::vector<std::string> numbers;
  for (size_t i = 0; i < all.size(); ++i) {
    numbers.push_back(std::to_string(i + 1));
    out += row(numbers.back(), {}).insert(13, all[i].flags.empty() ? "no flags" : all[i].flags);
  }
  out += row(fmt::format("medians of {}", all.front().runs.size()), numbers);
  for (const Figure& figure : kFigures) {
    std::vector<std::string> cells;
    for (const ComparedRuns& runs : all) {
      cells.push_back(text_of(figure, median_of(values_of(runs, figure))));
    }
    out += row(figure.label, cells);
  }
  size_t of = 0;
  for (const RatioToFirst& ratio : ratios_to_first(all)) {
    if (ratio.of != of) {
      of = ratio.of;
      out += row(fmt::format("{} over 1", of + 1), {"median", "mean", "  95 % interval"});
    }
    out += ratio_row(ratio);
  }
  return out;
}

}  // namespace pagedinfer
