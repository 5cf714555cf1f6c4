// Resuming from what an earlier run may have left in the output and the part file: records that are
// whole, torn, reordered, duplicated or of another run, and arbitrary bytes. Resuming either
// refuses and changes nothing, or keeps exactly the whole records, and ends with one record per
// line.
#include <fmt/format.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "fuzz.h"
#include "output/record_output.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

// One directory in memory, for as long as the process lives.
const std::string& folder() {
  static const TempDir folder("/dev/shm");
  return folder.path();
}

std::string good_record(int64_t index, std::string_view text) {
  return fmt::format("{{\"id\":null,\"index\":{},\"text\":\"{}\"}}\n", index, text);
}

std::string error_record(int64_t index) {
  return fmt::format("{{\"id\":null,\"index\":{},\"error\":{{\"code\":\"x\"}}}}\n", index);
}

enum class Kind { kInOrder, kAnyOrder, kWild };

// Records as an earlier run may have left them: the last one torn or, with kWild, anything.
std::string any_records(FuzzedDataProvider& data, Kind kind, int64_t num_lines, int64_t stride) {
  std::string text;
  int64_t next = 0;
  for (int left = data.ConsumeIntegralInRange(0, 24); left > 0; --left) {
    const bool in_order = kind == Kind::kInOrder || data.ConsumeBool();
    const int64_t line = in_order ? next++ : data.ConsumeIntegralInRange<int64_t>(0, num_lines);
    const int64_t index = stride * line;
    switch (data.ConsumeIntegralInRange(0, kind == Kind::kWild ? 9 : 4)) {
      case 0: text += error_record(index); break;
      case 1: text += good_record(index, "longer than the others, by far"); break;
      case 5: text += good_record(index + 1, "foreign"); break;
      case 6: text += data.ConsumeRandomLengthString(40); break;
      case 7: text.resize(text.size() - std::min(text.size(), size_t{3} + index)); break;
      case 8: text += std::string(data.ConsumeIntegralInRange<size_t>(1, 9), '\0'); break;
      case 9: text += "\n"; break;
      default: text += good_record(index, "good");
    }
  }
  const auto torn = data.ConsumeIntegralInRange<size_t>(0, 60);
  text.resize(text.size() - std::min(text.size(), torn));
  return text + std::string(data.ConsumeIntegralInRange<size_t>(0, 3), '\0');
}

struct Found {
  int64_t index;
  bool failed;
};

// The whole lines of a file up to the first one with a zero byte, which only a lost page can have
// left. Each with its record, if it is one.
std::vector<std::pair<std::string, std::optional<Found>>> whole_lines(std::string_view text) {
  std::vector<std::pair<std::string, std::optional<Found>>> lines;
  simdjson::dom::parser parser;
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const std::string line(text.substr(0, end + 1));
    if (line.find('\0') != std::string::npos) break;
    std::optional<Found> found;
    simdjson::dom::object object;
    simdjson::dom::element error;
    int64_t index = -1;
    if (!parser.parse(line).get(object) && !object["index"].get(index) && index >= 0) {
      found = Found{index, !object["error"].get(error) && !error.is_null()};
    }
    lines.emplace_back(line, found);
  }
  return lines;
}

// The receipts of a run for the records of its output after the first `num_covered`.
std::string receipts(const std::string& output, size_t num_covered, int64_t stride) {
  std::string text;
  for (const auto& [line, found] : whole_lines(output)) {
    if (num_covered > 0) {
      --num_covered;
    } else if (found && found->index % stride == 0) {
      text += receipt_line(found->index / stride, line);
    }
  }
  return text;
}

// The records as lines of the part file, where they wait for their turn, and a torn rest.
std::string waiting(std::string_view records) {
  std::string text;
  for (const auto& [line, found] : whole_lines(records)) {
    text += waiting_line(line);
    records.remove_prefix(line.size());
  }
  return text + std::string(records);
}

// Whether the part file holds a record that differs from the one of the same index in the output,
// after its first `num_covered` lines.
bool contradict(const std::string& output, size_t num_covered, const std::string& part) {
  std::map<int64_t, std::string> last;
  for (const auto& [line, found] : whole_lines(part)) {
    if (found) last[found->index] = line;
  }
  for (const auto& [line, found] : whole_lines(output)) {
    if (num_covered > 0) {
      --num_covered;
    } else if (found && last.contains(found->index) && last[found->index] != line) {
      return true;
    }
  }
  return false;
}

// Whether a run that has read the lines 0, stride, ... last may have left this text.
bool is_sound(const std::string& text, int64_t stride, int64_t last, bool in_order,
              bool may_repeat) {
  std::set<int64_t> seen;
  for (const auto& [line, found] : whole_lines(text)) {
    if (!found) return false;
    const int64_t num_seen = static_cast<int64_t>(seen.size());
    if (found->index > last) {  // its line was read, but the mark of that was lost
      if (in_order && num_seen * stride <= last) return false;
      continue;
    }
    if (found->index % stride != 0 || (in_order && found->index != num_seen * stride)) return false;
    if (!seen.insert(found->index).second && !may_repeat) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  const auto order = data.ConsumeBool() ? RecordOrder::kInput : RecordOrder::kCompletion;
  const bool retry_errors = data.ConsumeBool(), ended = data.ConsumeBool();
  const auto num_lines = data.ConsumeIntegralInRange<int64_t>(0, 12);
  const auto num_read = data.ConsumeIntegralInRange<int64_t>(0, num_lines);
  const int64_t stride = data.ConsumeBool() ? 1 : 3;  // as in a shard
  const int header_kind = data.ConsumeIntegralInRange(0, 9);

  RunMark mark, last;
  for (int64_t turn = 0; turn < num_lines; ++turn) {
    last.add(fmt::format("line {}", turn));
    if (turn + 1 == num_read) mark = last;
  }
  const Fingerprint fingerprint{{{"seed", "1"}}};
  std::string header;
  if (header_kind == 0) header = data.ConsumeRandomLengthString(300);
  if (header_kind == 1) header = part_header({{{"seed", "2"}}});
  const bool wild = data.ConsumeBool(), in_order = order == RecordOrder::kInput;
  const Kind output_kind = wild ? Kind::kWild : in_order ? Kind::kInOrder : Kind::kAnyOrder;
  const std::string output = any_records(data, output_kind, num_lines, stride);
  const std::string part =
      any_records(data, wild ? Kind::kWild : Kind::kAnyOrder, num_lines, stride);

  const auto written = whole_lines(output);
  const size_t num_covered =
      ended ? written.size() : data.ConsumeIntegralInRange<size_t>(0, written.size());
  StateMark state = {.input = mark, .serial = 1};
  for (size_t i = 0; i < num_covered; ++i) state.output.add(written[i].first);
  if (header_kind > 1) {
    header =
        mark_line({}) + mark_line(state) + part_header(fingerprint).substr(size_t{2} * kMarkBytes);
  }
  const std::string lines = receipts(output, num_covered, stride) + waiting(part);

  const std::string path = folder() + "/out", sidecar = path + (ended ? ".run" : ".part");
  for (const char* ending : {"", ".part", ".run"}) std::filesystem::remove(path + ending);
  write_file(path, output);
  write_file(sidecar, header + lines);

  OutputOptions options;
  options.order = order;
  options.fingerprint = fingerprint;
  const auto next_line = [&, turn = int64_t{0},
                          text = std::string()]() mutable -> std::optional<InputLine> {
    if (turn == num_lines) return std::nullopt;
    text = fmt::format("line {}", turn);
    const int64_t now = turn++;
    return InputLine{.text = text, .index = stride * now, .turn = now, .number = now + 1};
  };
  std::optional<RecordOutput> resumed;
  try {
    resumed.emplace(RecordOutput::resume(path, options, {"input", next_line, retry_errors}));
  } catch (const Error&) {
    require(read_file(path) == output && read_file(sidecar) == header + lines,
            "what is refused is left as it was");
    const int64_t last_index = stride * (num_read - 1);
    require(header_kind < 2 || !is_sound(output, stride, last_index, in_order, false) ||
                !is_sound(part, stride, last_index, false, true) ||
                contradict(output, num_covered, part),
            "what a run has left is not refused");
    return 0;
  }
  if (header_kind == 1) require(false, "another run's files are refused");
  if (header_kind == 0) {
    require(output.empty() && resumed->num_done() == 0, "without a header nothing is taken over");
  }

  // The records of lines that the run has read: all of them are kept, and nothing else.
  std::map<int64_t, std::vector<std::string>> kept;
  const auto collect = [&](const std::string& text, bool may_repeat) {
    for (const auto& [line, found] : whole_lines(text)) {
      require(found.has_value(), "what is no record is refused");
      const bool is_read = found->index <= stride * (num_read - 1);
      require(!is_read || found->index % stride == 0, "records of other lines are refused");
      if (!is_read || (retry_errors && found->failed)) continue;
      auto& records = kept[found->index];
      require(may_repeat || records.empty(), "a record that comes twice is refused");
      records.push_back(line);
    }
  };
  if (header_kind != 0) {
    collect(output, false);
    collect(part, true);
  }
  require(resumed->num_done() == static_cast<int64_t>(kept.size()), "every record is taken over");
  for (int64_t turn = 0; turn < num_lines; ++turn) {
    require(resumed->is_done(stride * turn) == kept.contains(stride * turn),
            "a record is taken over if it is there, and only then");
  }

  for (int64_t turn = num_lines - 1; turn >= 0; --turn) {
    if (!kept.contains(stride * turn)) resumed->append(turn, good_record(stride * turn, "new"));
  }
  resumed->finish(last);
  resumed.reset();
  std::vector<int64_t> indices;
  for (const auto& [line, found] : whole_lines(read_file(path))) {
    require(found.has_value(), "the output holds records only");
    indices.push_back(found->index);
    const auto records = kept.find(found->index);
    require(records == kept.end()
                ? line == good_record(found->index, "new")
                : std::count(records->second.begin(), records->second.end(), line) > 0,
            "a record that was there stays as it was");
  }
  if (order == RecordOrder::kCompletion) std::sort(indices.begin(), indices.end());
  require(static_cast<int64_t>(indices.size()) == num_lines, "every line has one record");
  for (int64_t turn = 0; turn < num_lines; ++turn) {
    require(indices[static_cast<size_t>(turn)] == stride * turn, "in the order of the input");
  }
  return 0;
}
