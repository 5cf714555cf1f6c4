#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "intake/intake_item.h"
#include "io/line_reader.h"
#include "request/input_lines.h"
#include "request/line_arrivals.h"
#include "request/request_parser.h"

namespace pagedinfer {

struct LineHint {
  int64_t line = 0;  // of the input file, from 1
  KeyHint hint = {};
};

// Adds a hint unless its key has one already, or there are a hundred hints.
inline void add_hint(std::vector<LineHint>& hints, LineHint more) {
  constexpr size_t kMaxHints = 100;
  const auto same = [&](const LineHint& other) { return other.hint.key == more.hint.key; };
  if (hints.size() < kMaxHints && std::ranges::none_of(hints, same)) {
    hints.push_back(std::move(more));
  }
}

// A batch of lines and, once it is done, their items.
struct LineBatch {
  struct Line {
    size_t begin, size;  // in `text`
    int64_t index, turn, number;
    double read;  // when the line was read, in seconds on the run's clock
    LineArrival arrival;
    RequestError error;
  };

  std::string text = {};  // of all lines; freed, with `lines`, when the batch is done
  std::vector<Line> lines = {};
  int64_t cost = 0;  // of the batch in the window, as IntakeLimits counts, until it is done

  bool done = false;
  std::vector<IntakeItem> items = {};
  size_t next = 0;                  // the first item that was not pulled
  int64_t cost_when_done = 0;       // the same after it is done
  std::exception_ptr failure = {};  // thrown by the line after the last item
  RequestParser::UnknownKeys unknown_keys = {};
  std::vector<LineHint> hints = {};
  double seconds = 0;

  void add(const InputLine& line, double read, LineArrival arrival, int64_t line_cost) {
    lines.push_back({text.size(), line.text.size(), line.index, line.turn, line.number, read,
                     std::move(arrival), line.error});
    text += line.text;
    cost += line_cost;
  }
  // Appends the padding that the parser needs. REQUIRES: no add() follows.
  void pad() { text.append(static_cast<size_t>(kLinePadding), ' '); }
  InputLine input_line(const Line& line) const {
    return {.text = std::string_view(text).substr(line.begin, line.size),
            .index = line.index,
            .turn = line.turn,
            .number = line.number,
            .error = line.error};
  }
  bool spent() const { return done && next == items.size(); }
};

}  // namespace pagedinfer
