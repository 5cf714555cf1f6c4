#include "stats/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "core/check.h"
#include "stats/table.h"

namespace pagedinfer {
namespace {

// A number of one run.
struct Figure {
  std::string name, label;
  Unit unit;
  double value;

  bool has_ratio() const {
    return unit == Unit::kSeconds || unit == Unit::kMilliseconds || unit == Unit::kPerSecond;
  }
};

// In the order of the table, and of every run the same ones.
std::vector<Figure> figures_of(const Summary& summary) {
  std::vector<Figure> figures;
  for (const Statistic<Summary>& row : summary_statistics()) {
    const std::string label(row.shown.compared_as);
    if (label.empty()) continue;
    const Measure measure = row.get(summary);
    if (const auto* const spread = std::get_if<Spread>(&measure)) {
      const auto add = [&](const char* part, double value) {
        figures.push_back({fmt::format("{}_{}_ms", part, row.name),
                           fmt::format("{} {}", label, part), row.unit, value});
      };
      add("p50", spread->p50);
      add("p99", spread->p99);
    } else {
      figures.push_back({std::string(row.name), label, row.unit, number_of(measure)});
    }
  }
  return figures;
}

std::vector<double> values_of(const ComparedRuns& runs, size_t figure) {
  std::vector<double> values;
  for (const Summary& summary : runs.runs) values.push_back(figures_of(summary)[figure].value);
  return values;
}

std::string text_row(std::string_view name, const std::vector<std::string>& cells) {
  std::string out = fmt::format("{:<13}", name);
  for (const std::string& cell : cells) out += fmt::format("{:>12}", cell);
  return out + "\n";
}

std::string ratio_row(const RatioToFirst& of) {
  const PairedRatio& ratio = of.ratio;
  std::vector<std::string> cells = {fmt::format("{:.3f}", ratio.median),
                                    fmt::format("{:.3f}", ratio.mean)};
  if (ratio.low) cells.push_back(fmt::format("  {:.3f} to {:.3f}", *ratio.low, *ratio.high));
  return text_row(of.label, cells);
}

}  // namespace

double student_t(int degrees) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                               2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                               2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                               2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  CHECK(degrees >= 1);
  if (degrees <= static_cast<int>(std::size(kTable))) return kTable[degrees - 1];
  // The first terms of its expansion about the normal distribution, exact to three digits here.
  constexpr double kNormal = 1.959964;
  return kNormal + (std::pow(kNormal, 3) + kNormal) / (4 * degrees);
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

std::optional<PairedRatio> paired_ratio(std::span<const double> of, std::span<const double> to) {
  std::vector<double> ratios;
  double sum = 0;
  for (size_t i = 0; i < of.size(); ++i) {
    if (!(of[i] > 0) || !(to[i] > 0)) return std::nullopt;
    ratios.push_back(of[i] / to[i]);
    sum += std::log(ratios.back());
  }
  const auto count = static_cast<double>(ratios.size());
  const double mean = sum / count;
  PairedRatio ratio = {.median = median_of(ratios), .mean = std::exp(mean)};
  if (ratios.size() < 2) return ratio;
  double squares = 0;
  for (const double r : ratios) squares += std::pow(std::log(r) - mean, 2);
  const double error = std::sqrt(squares / (count - 1) / count);
  const double half = student_t(static_cast<int>(ratios.size()) - 1) * error;
  ratio.low = std::exp(mean - half);
  ratio.high = std::exp(mean + half);
  return ratio;
}

size_t median_run(const ComparedRuns& runs) {
  std::vector<size_t> order(runs.runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return runs.runs[i].duration; });
  return order[(order.size() - 1) / 2];
}

std::vector<RatioToFirst> ratios_to_first(const std::vector<ComparedRuns>& all) {
  const std::vector<Figure> figures = figures_of(all.front().runs.front());
  std::vector<RatioToFirst> ratios;
  for (size_t i = 1; i < all.size(); ++i) {
    for (size_t figure = 0; figure < figures.size(); ++figure) {
      if (!figures[figure].has_ratio()) continue;
      const auto ratio = paired_ratio(values_of(all[i], figure), values_of(all.front(), figure));
      if (ratio) ratios.push_back({i, figures[figure].name, figures[figure].label, *ratio});
    }
  }
  return ratios;
}

std::string comparison_table(const std::vector<ComparedRuns>& all) {
  std::string out;
  std::vector<std::string> numbers;
  for (size_t i = 0; i < all.size(); ++i) {
    numbers.push_back(std::to_string(i + 1));
    out +=
        text_row(numbers.back(), {}).insert(13, all[i].flags.empty() ? "no flags" : all[i].flags);
  }
  out += text_row(fmt::format("medians of {}", all.front().runs.size()), numbers);
  const std::vector<Figure> figures = figures_of(all.front().runs.front());
  for (size_t figure = 0; figure < figures.size(); ++figure) {
    std::vector<std::string> cells;
    for (const ComparedRuns& runs : all) {
      cells.push_back(shown(figures[figure].unit, median_of(values_of(runs, figure))));
    }
    out += text_row(figures[figure].label, cells);
  }
  size_t of = 0;
  for (const RatioToFirst& ratio : ratios_to_first(all)) {
    if (ratio.of != of) {
      of = ratio.of;
      out += text_row(fmt::format("{} over 1", of + 1), {"median", "mean", "  95 % interval"});
    }
    out += ratio_row(ratio);
  }
  return out;
}

}  // namespace pagedinfer
