#include "stats/table.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <utility>

namespace pagedinfer {
namespace {

std::string row(const std::string& name, const std::string& text) {
  return fmt::format("{:<13}{}\n", name, text);
}

std::string columns(const std::string& name, std::initializer_list<std::string> cells) {
  std::string out = fmt::format("{:<13}", name);
  for (const std::string& cell : cells) out += fmt::format("{:>10}", cell);
  return out + "\n";
}

std::string requests_row(const Summary& s) {
  std::string text = fmt::format("{} completed", grouped(s.completed));
  if (s.failed > 0) text += fmt::format(", {} failed", grouped(s.failed));
  if (s.resumed > 0) text += fmt::format(", {} resumed", grouped(s.resumed));
  std::string out = row("requests", text);
  for (const auto& [code, count] : s.failed_by_code) {
    out += row("", fmt::format("{} {}", grouped(count), code));
  }
  return out;
}

std::string completed_rows(const Summary& s) {
  std::string out = row(
      "tokens", fmt::format("{} in, {} out", grouped(s.input_tokens), grouped(s.output_tokens)));
  out += row("throughput", fmt::format("{} requests/s", three_digits(s.request_throughput)));
  out += row("", fmt::format("{} tokens/s in, {} out, {} total", three_digits(s.input_throughput),
                             three_digits(s.output_throughput), three_digits(s.total_throughput)));
  out += spread_heading();
  const std::pair<const char*, const Spread&> spreads[] = {
      {"TTFT", s.ttft}, {"TPOT", s.tpot}, {"ITL", s.itl}, {"E2EL", s.e2e}};
  for (const auto& [name, spread] : spreads) {
    if (spread.count > 0) out += spread_row(name, spread);
  }
  return out;
}

std::string steps_rows(const Summary& s) {
  std::string out = row("KV cache", fmt::format("peak {}, mean {}; {} of leased slots hold tokens",
                                                percent(s.kv_use_peak), percent(s.kv_use_mean),
                                                percent(s.slot_utilization)));
  if (const std::string times = three_digits(s.contiguous_ratio); times != three_digits(1)) {
    out += row("", fmt::format("contiguous would reserve {} times as much", times));
  }
  out += row("preemptions", grouped(s.preemptions));
  if (s.recomputed_tokens > 0) {
    out += row("again", fmt::format("{} tokens were computed again", grouped(s.recomputed_tokens)));
  }
  if (s.found_tokens > 0) {
    std::string found = fmt::format("{} tokens", grouped(s.found_tokens));
    if (s.cached_tokens > 0) {
      found += fmt::format(", {} of the prompts'", percent(static_cast<double>(s.cached_tokens) /
                                                           static_cast<double>(s.input_tokens)));
    }
    if (s.evicted_blocks > 0) {
      found += fmt::format("; {} blocks evicted", grouped(s.evicted_blocks));
    }
    out += row("cache hits", found);
  }
  if (s.leaked_blocks > 0) {
    out += row("leaked", fmt::format("{} blocks, which were freed", grouped(s.leaked_blocks)));
  }
  const double per_step = static_cast<double>(s.step_tokens) / static_cast<double>(s.steps);
  return out + row("steps", fmt::format("{} of {} tokens on average; at most {} running",
                                        grouped(s.steps), three_digits(per_step), s.peak_running));
}

}  // namespace

std::string spread_heading() { return columns("", {"mean", "p50", "p90", "p99", "max"}); }

std::string spread_row(const std::string& name, const Spread& spread) {
  return columns(name,
                 {human_seconds(spread.mean), human_seconds(spread.p50), human_seconds(spread.p90),
                  human_seconds(spread.p99), human_seconds(spread.max)});
}

std::string percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const int first = number < 0 ? 1 : 0;
  for (int at = static_cast<int>(text.size()) - 3; at > first; at -= 3) {
    text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

std::string three_digits(double number) {
  const double size = std::abs(number);
  if (size < 9.995) return fmt::format("{:.2f}", number);
  if (size < 99.95) return fmt::format("{:.1f}", number);
  return grouped(std::llround(number));
}

std::string human_seconds(double seconds) {
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 99.95) return three_digits(seconds) + " s";
  return clock_time(seconds);
}

std::string clock_time(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string summary_table(const Summary& s) {
  std::string out = requests_row(s);
  if (s.completed > 0) out += completed_rows(s);
  if (s.steps > 0) out += steps_rows(s);
  out += columns("", {"total", "load", "tokenize", "device", "host", "output"});
  out += columns("time", {human_seconds(s.total), human_seconds(s.load), human_seconds(s.tokenize),
                          human_seconds(s.device), human_seconds(s.host), human_seconds(s.output)});
  return out;
}

}  // namespace pagedinfer
