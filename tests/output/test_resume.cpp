#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "core/error.h"
#include "output/record_output.h"
#include "tests/support/file_trouble.h"
#include "tests/support/sanitized.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

// Lines and their records. The index of a line may differ from its turn.
struct Job {
  RecordOrder order = RecordOrder::kInput;
  std::vector<std::string> lines = {}, records = {};
  int64_t stride = 1;  // from one line's index to the next one's

  int64_t index_of(int64_t turn) const { return stride * turn + (stride - 1); }
  NextInputLine reader() const {
    return [this, turn = int64_t{0}]() mutable -> std::optional<InputLine> {
      if (turn == static_cast<int64_t>(lines.size())) return std::nullopt;
      const InputLine line{lines[static_cast<size_t>(turn)], index_of(turn)};
      ++turn;
      return line;
    };
  }
  void add(std::mt19937& random, bool failed) {
    const auto turn = static_cast<int64_t>(lines.size());
    const int64_t index = index_of(turn);
    lines.push_back("prompt " + std::to_string(random()));
    records.push_back(
        failed ? fmt::format(R"({{"id":null,"index":{},"line":1,"error":{{"code":"x"}}}})", index)
               : fmt::format(R"({{"id":null,"index":{},"text":"{}","error":null}})", index,
                             std::string(random() % 30, 'x')));
    records.back() += '\n';
  }
};

Job random_job(std::mt19937& random, RecordOrder order, size_t count, bool with_errors = true) {
  Job job{.order = order, .stride = 1 + int64_t(random() % 2) * 2};
  while (job.lines.size() < count) job.add(random, with_errors && random() % 5 == 0);
  return job;
}

// Checks the output against the expected records, in order or in any order.
bool is_complete(const Job& job, const std::string& path) {
  std::istringstream file(read_file(path));
  std::vector<std::string> found, expected = job.records;
  for (std::string line; std::getline(file, line);) found.push_back(line + "\n");
  if (job.order == RecordOrder::kCompletion) {
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
  }
  return found == expected && !std::filesystem::exists(path + ".part") &&
         read_file(path + ".run").size() == part_header({{{"seed", "1"}}}).size();
}

struct Attempt {
  bool resume = false, retry_errors = false;
  int steps = 1 << 30;  // then it is left as it is
  Fingerprint fingerprint = {{{"seed", "1"}}};
};

RecordOutput open_output(const Job& job, const std::string& path, const Attempt& attempt,
                         const FileCalls& calls) {
  // The clock advances with every call, so that some flushes sync and others do not.
  OutputOptions options = {.order = job.order,
                           .fingerprint = attempt.fingerprint,
                           .sync_every = 3,
                           .clock = [now = 0.]() mutable { return now += 1; },
                           .calls = calls};
  if (!attempt.resume) return RecordOutput(path, options);
  return RecordOutput::resume(path, options, {"input", job.reader(), attempt.retry_errors});
}

// An engine that finishes requests in random order and may be killed at any call. `safe` holds the
// records that were flushed, by turn. Returns whether it came to the end.
bool run(const Job& job, const std::string& path, const Attempt& attempt, std::mt19937& random,
         std::set<int64_t>& safe, const Trouble& trouble = {Trouble::Kind::kNone, 0}) {
  RecordOutput output = open_output(job, path, attempt, trouble.calls());
  if (attempt.resume) {
    for (const int64_t turn : safe) CHECK(output.is_done(job.index_of(turn)));
  }
  RunMark mark;
  std::vector<int64_t> running, flushed;
  const auto count = static_cast<int64_t>(job.lines.size());
  for (int step = 0; !running.empty() || mark.lines < count; ++step) {
    if (step == attempt.steps) return false;
    while (running.size() < 6 && mark.lines < count) {
      const int64_t turn = mark.lines;
      mark.add(job.lines[static_cast<size_t>(turn)]);
      if (!output.is_done(job.index_of(turn))) running.push_back(turn);
    }
    for (size_t i = random() % 3; i > 0 && !running.empty(); --i) {
      const auto chosen = running.begin() + long(random() % running.size());
      output.append(*chosen, job.records[static_cast<size_t>(*chosen)]);
      flushed.push_back(*chosen);
      running.erase(chosen);
    }
    output.flush(mark);
    safe.insert(flushed.begin(), flushed.end());
  }
  output.finish(mark);
  return true;
}

void run_undisturbed(const Job& job, const std::string& path, Attempt attempt,
                     std::mt19937& random) {
  std::set<int64_t> none;
  REQUIRE(run(job, path, attempt, random, none));
}

std::string resume_refusal(const Job& job, const std::string& path, const Attempt& attempt) {
  try {
    open_output(job, path, attempt, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

constexpr RecordOrder kOrders[] = {RecordOrder::kInput, RecordOrder::kCompletion};
const Attempt kResume = {.resume = true};

}  // namespace

TEST_CASE("resume: a renamed model is refused with the flag that keeps its old name") {
  const auto message = [](const std::string& setting) {
    try {
      require_same("out.part", {{{setting, "mod"}}}, {{{setting, "mod2"}}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(message("served_model_name").find("began with served_model_name = mod, found mod2") !=
        std::string::npos);
  CHECK(message("served_model_name").find("--served-model-name mod gives") != std::string::npos);
  CHECK(message("seed").find("--served-model-name") == std::string::npos);
}

TEST_CASE("resume: a run that stops at any step and goes on gives the same file") {
  TempDir folder;
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Job job = random_job(random, kOrders[round % 2], random() % 60);
    const std::string path = folder / "out";
    std::set<int64_t> safe;
    Attempt attempt = {.resume = round % 3 == 0};  // with nothing there it begins
    for (;; attempt.resume = true) {
      attempt.steps = static_cast<int>(random() % 40);
      if (run(job, path, attempt, random, safe)) break;
    }
    CHECK(is_complete(job, path));
    std::filesystem::remove(path);
    std::filesystem::remove(path + ".run");
  }
}

TEST_CASE("resume: trouble at any system call loses nothing that was flushed") {
  using Kind = Trouble::Kind;
  std::mt19937 random(2);
  for (const RecordOrder order : kOrders) {
    const Job job = random_job(random, order, 14);
    for (const Kind kind : {Kind::kKilled, Kind::kKilledInside, Kind::kRefused, Kind::kShort}) {
      bool ended = false;
      for (int at = 1; !ended; ++at) {
        TempDir folder;
        const std::string path = folder / "out";
        std::set<int64_t> safe;
        for (Attempt attempt;; attempt.resume = true) {
          // The first attempt fails at every call in turn, those that resume it anywhere.
          const Trouble trouble(kind, attempt.resume ? 1 + int(random() % 60) : at);
          std::mt19937 same(3);
          try {
            const bool done =
                run(job, path, attempt, attempt.resume ? random : same, safe, trouble);
            CHECK(done);
            CHECK_FALSE(trouble.happened());
            ended = ended || !attempt.resume;
            break;
          } catch (const Killed&) {
          } catch (const Error& error) {
            CHECK(std::string(error.what()).find(path) != std::string::npos);
          }
          CHECK(trouble.happened());
        }
        CHECK(is_complete(job, path));
      }
    }
  }
}

TEST_CASE("resume: files cut at any byte give the same file") {
  std::mt19937 random(4);
  for (const RecordOrder order : kOrders) {
    const Job job = random_job(random, order, 20);
    for (const char* cut : {"out", "out.part"}) {
      TempDir begun;
      std::set<int64_t> safe;
      REQUIRE_FALSE(run(job, begun / "out", {.steps = 8}, random, safe));
      const std::string output = read_file(begun / "out"), part = read_file(begun / "out.part");
      const bool cuts_part = std::string(cut) == "out.part";
      const size_t header = part_header({{{"seed", "1"}}}).size();
      for (size_t size = cuts_part ? header : 0; size <= (cuts_part ? part : output).size();
           ++size) {
        TempDir folder;
        write_file(folder / "out", output);
        write_file(folder / "out.part", part);
        const int64_t covered = read_part_header(folder / "out.part")->mark.output.bytes;
        std::filesystem::resize_file(folder / cut, size);
        // A power failure may leave such bytes behind the end.
        if (size % 3 == 0) std::filesystem::resize_file(folder / cut, size + 7);
        if (!cuts_part && static_cast<int64_t>(size) < covered) {  // no crash does that
          CHECK(resume_refusal(job, folder / "out", kResume).find("it was truncated") !=
                std::string::npos);
          continue;
        }
        run_undisturbed(job, folder / "out", kResume, random);
        CHECK(is_complete(job, folder / "out"));
      }
    }
  }
}

TEST_CASE("resume: records that no mark covers are computed again") {
  std::mt19937 random(5);
  for (const RecordOrder order : kOrders) {
    const Job job = random_job(random, order, 30);
    TempDir folder;
    std::set<int64_t> safe;
    REQUIRE_FALSE(run(job, folder / "out", {.steps = 20}, random, safe));
    std::string part = read_file(folder / "out.part");
    RunMark early;
    for (int64_t turn = 0; turn < 5; ++turn) early.add(job.lines[static_cast<size_t>(turn)]);
    StateMark mark = read_part_header(folder / "out.part")->mark;
    mark.input = early;
    write_file(folder / "out.part",
               mark_line({}) + mark_line(mark) + part.substr(size_t{2} * kMarkBytes));
    run_undisturbed(job, folder / "out", kResume, random);
    CHECK(is_complete(job, folder / "out"));
  }
}

TEST_CASE("resume: only a retry changes a setting, and only one that finished records ignore") {
  const auto message = [](const std::string& setting, const std::string& began,
                          const std::string& found, bool retry_errors = true) {
    try {
      require_same("out.part", {{{setting, began}}}, {{{setting, found}}}, retry_errors);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string none = "0000000000000000", some = "00000000000000ab";
  CHECK(message("strict", "on", "off") == "");
  CHECK(message("chat_template", none, some) == "");
  CHECK(message("max_model_len", "64", "128") == "");
  CHECK(message("strict", "on", "off", false).find("--retry-errors") == std::string::npos);
  CHECK(message("strict", "on", "off", false).find("strict = on, found off") != std::string::npos);
  CHECK(message("chat_template", none, some, false) != "");
  for (const auto& [setting, began, found, reason] : std::vector<std::array<std::string, 4>>{
           {"strict", "off", "on", "only from on to off"},
           {"chat_template", some, none, "where there was none"},
           {"chat_template", some, "cd", "where there was none"},
           {"max_model_len", "64", "9", "only a larger one"},
           {"rope", "short", "long", "computes every position"},
           {"seed", "1", "2", "may depend on it"}}) {
    const std::string refusal = message(setting, began, found);
    CAPTURE(refusal);
    CHECK(refusal.find("--retry-errors cannot change " + setting + ": ") != std::string::npos);
    CHECK(refusal.find(reason) != std::string::npos);
  }
}

TEST_CASE("resume: error records are kept, or computed again when that is asked for") {
  using Kind = Trouble::Kind;
  std::mt19937 random(6);
  for (int round = 0; round < 400; ++round) {
    Job job = random_job(random, kOrders[round % 2], 1 + random() % 40);
    TempDir folder;
    const std::string path = folder / "out";
    std::set<int64_t> safe;
    run(job, path, {.steps = static_cast<int>(random() % 60)}, random, safe);
    const Job before = job;
    for (size_t turn = 0; turn < job.records.size(); ++turn) {  // their cause is gone
      const size_t error = job.records[turn].find(R"("line":1,"error":{)");
      if (error != std::string::npos) {
        safe.erase(static_cast<int64_t>(turn));
        job.records[turn] = fmt::format("{{\"index\":{},\"text\":\"good\"}}\n",
                                        job.index_of(static_cast<int64_t>(turn)));
      }
    }
    if (round % 4 < 2) {
      run_undisturbed(before, path, kResume, random);
      CHECK(is_complete(before, path));
    }
    for (;;) {
      const Trouble trouble(Kind::kKilled, 1 + static_cast<int>(random() % 60));
      try {
        if (run(job, path, {.resume = true, .retry_errors = true}, random, safe, trouble)) break;
      } catch (const Killed&) {
      }
    }
    CHECK(is_complete(job, path));
  }
}

TEST_CASE("resume: a setting changes with the error records, whenever the run is killed") {
  const Fingerprint before = {{{"seed", "1"}, {"strict", "on"}}};
  const Fingerprint now = {{{"seed", "1"}, {"strict", "off"}}};
  std::mt19937 random(16);
  int num_went_on = 0;
  for (int round = 0; round < 400; ++round) {
    Job job = random_job(random, kOrders[round % 2], 1 + random() % 40);
    TempDir folder;
    const std::string path = folder / "out";
    std::set<int64_t> safe;
    const int steps = round % 4 < 2 ? 1 << 30 : static_cast<int>(random() % 60);
    run(job, path, {.steps = steps, .fingerprint = before}, random, safe);
    for (size_t turn = 0; turn < job.records.size(); ++turn) {
      if (job.records[turn].find(R"("line":1,"error":{)") == std::string::npos) continue;
      safe.erase(static_cast<int64_t>(turn));
      job.records[turn] = fmt::format("{{\"index\":{},\"text\":\"good\"}}\n",
                                      job.index_of(static_cast<int64_t>(turn)));
    }
    Attempt attempt = {.resume = true, .retry_errors = true, .fingerprint = now};
    for (;;) {
      const Trouble trouble(Trouble::Kind::kKilled, 1 + static_cast<int>(random() % 60));
      try {
        if (run(job, path, attempt, random, safe, trouble)) {
          num_went_on += attempt.retry_errors ? 0 : 1;
          break;
        }
      } catch (const Killed&) {
      } catch (const Error&) {  // the old settings, which only a retry changes
        REQUIRE_FALSE(attempt.retry_errors);
        attempt.retry_errors = true;
        continue;
      }
      // As soon as the file has the new settings it has no error record.
      attempt.retry_errors = random() % 2 == 0;
    }
    const auto header = read_part_header(path + ".run");
    REQUIRE(header);
    CHECK_FALSE(first_difference(header->fingerprint, now));
    CHECK_FALSE(std::filesystem::exists(path + ".part.new"));
    std::multiset<std::string> expected(job.records.begin(), job.records.end()), found;
    std::istringstream file(read_file(path));
    for (std::string line; std::getline(file, line);) found.insert(line + "\n");
    CHECK(found == expected);
  }
  CHECK(num_went_on > 20);
}

TEST_CASE("resume: an input that has grown is continued, also when the run had ended") {
  std::mt19937 random(7);
  for (const RecordOrder order : kOrders) {
    TempDir folder;
    Job job = random_job(random, order, 20);
    run_undisturbed(job, folder / "out", {}, random);
    for (int i = 0; i < 10; ++i) job.add(random, false);
    std::set<int64_t> safe;
    for (int64_t turn = 0; turn < 20; ++turn) safe.insert(turn);
    CHECK(run(job, folder / "out", kResume, random, safe));
    CHECK(is_complete(job, folder / "out"));
  }
}

TEST_CASE("resume: what does not belong to the run is an error, and nothing has changed") {
  std::mt19937 random(8);
  TempDir folder;
  const std::string path = folder / "out";
  const Job job = random_job(random, RecordOrder::kInput, 20, false);
  std::set<int64_t> safe;
  REQUIRE_FALSE(run(job, path, {.steps = 12}, random, safe));
  const std::string output = read_file(path), part = read_file(path + ".part");
  const std::string first = output.substr(0, output.find('\n') + 1);

  const auto check = [&](const Job& changed, const Attempt& attempt, const std::string& expected) {
    const std::string before = read_file(path), part_before = read_file(path + ".part");
    const std::string message = resume_refusal(changed, path, attempt);
    INFO(message);
    CHECK(message.find(expected) != std::string::npos);
    CHECK(read_file(path) == before);
    CHECK(read_file(path + ".part") == part_before);
  };
  check(job, {.resume = true, .fingerprint = {{{"seed", "2"}}}}, "began with seed = 1, found 2");
  check(job, {.resume = true, .fingerprint = {{{"seed", "1"}, {"shard", "0/3"}}}},
        "began with shard = none, found 0/3");
  check(job, {.resume = true, .fingerprint = {}}, "began with seed = 1, found none");
  Job other = job;
  other.lines.resize(2);
  check(other, kResume, "input: has 2 lines");
  other = job;
  other.lines[3] += "x";
  check(other, kResume, "input: the first");

  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"no record\n", "out: line 2: expected a record"},
           {"{\"text\":\"no index\"}\n", "out: line 2: expected a record"},
           {"{\"index\":-1}\n", "out: line 2: expected a record"},
           {"{\"index\":1e3}\n", "out: line 2: expected a record"},
           {"\n", "out: line 2: expected a record"},
           {first, "out: line 2: expected index"}}) {
    write_file(path, first + text + output.substr(first.size()));
    check(job, kResume, expected);
  }
  write_file(path, output);
  write_file(path + ".part", part + "[]\n");
  check(job, kResume, "out.part: line ");
  write_file(path + ".part", "a\nb\nc\nd\n");
  check(job, kResume, "out.part: line 3: expected the settings");
  write_file(path + ".part", "{\"lines\"");
  check(job, kResume, "out.part: expected three lines");
  std::filesystem::remove(path + ".part");
  CHECK(resume_refusal(job, path, kResume).find("there is neither") != std::string::npos);
}

TEST_CASE("resume: a second record of a line is noticed in the order of completion") {
  std::mt19937 random(9);
  TempDir folder;
  const Job job = random_job(random, RecordOrder::kCompletion, 20, false);
  std::set<int64_t> safe;
  REQUIRE_FALSE(run(job, folder / "out", {.steps = 12}, random, safe));
  const std::string output = read_file(folder / "out");
  write_file(folder / "out", output + output.substr(0, output.find('\n') + 1));
  CHECK(resume_refusal(job, folder / "out", kResume).find("occurs twice") != std::string::npos);
}

TEST_CASE("resume: a record that was changed is refused and named, or computed again") {
  std::mt19937 random(13);
  int num_refused = 0, num_completed = 0;
  for (int round = 0; round < (kSanitized ? 3 : 12); ++round) {
    const Job job = random_job(random, kOrders[round % 2], 16);
    TempDir begun;
    std::set<int64_t> safe;
    run(job, begun / "out", {.steps = round < 8 ? 4 + round : 1 << 30}, random, safe);
    const std::string state = std::filesystem::exists(begun / "out.part") ? ".part" : ".run";
    const std::string whole[2] = {read_file(begun / "out"), read_file(begun / ("out" + state))};
    const size_t header = part_header({{{"seed", "1"}}}).size();
    for (const int which : {0, 1}) {
      const std::string& before = whole[which];
      for (size_t at = which == 0 ? 0 : header; at < before.size(); ++at) {
        std::string changed = before;
        changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
        TempDir folder;
        const std::string path = folder / "out";
        write_file(path, which == 0 ? changed : whole[0]);
        write_file(path + state, which == 1 ? changed : whole[1]);
        const std::string message = resume_refusal(job, path, kResume);
        INFO(message);
        if (message != "no error") {
          ++num_refused;
          CHECK(message.starts_with(path));
          CHECK((message.find(": line") != std::string::npos ||
                 message.find("was truncated") != std::string::npos));
          CHECK(read_file(path) == (which == 0 ? changed : whole[0]));
          CHECK(read_file(path + state) == (which == 1 ? changed : whole[1]));
          continue;
        }
        // A crash may leave this (a torn end, an index that no mark covers), or it affects no
        // record: the records must be the expected ones.
        ++num_completed;
        CHECK(before[at] != 'x');  // a text
        run_undisturbed(job, path, kResume, random);
        CHECK(is_complete(job, path));
      }
    }
  }
  CHECK(num_refused > 20 * num_completed);
}

TEST_CASE("resume: changed bytes of either file never lead to other records") {
  std::mt19937 random(14);
  const auto lines_of = [](const std::string& text) {
    std::istringstream file(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line + "\n");
    return lines;
  };
  int num_refused = 0;
  for (int round = 0; round < 400; ++round) {
    const Job job = random_job(random, kOrders[round % 2], 30);
    TempDir folder;
    const std::string path = folder / "out";
    std::set<int64_t> safe;
    run(job, path, {.steps = static_cast<int>(random() % 30)}, random, safe);
    const bool ended = !std::filesystem::exists(path + ".part");
    const std::string file = round % 3 == 0 ? path + (ended ? ".run" : ".part") : path;
    std::vector<std::string> lines = lines_of(read_file(file));
    const size_t first = file == path ? 0 : 3;
    if (lines.size() < first + 2) continue;
    const auto any = [&] { return first + random() % (lines.size() - first); };
    switch (random() % 4) {
      case 0: lines.erase(lines.begin() + long(any())); break;
      case 1: lines.insert(lines.begin() + long(any()), lines[any()]); break;
      case 2: std::swap(lines[any()], lines[any()]); break;
      default: {  // of another run
        std::string& line = lines[any()];
        const size_t text = line.find("\"error\":");
        if (text != std::string::npos) line.insert(text, "\"more\":0,");
      }
    }
    std::string text;
    for (const std::string& line : lines) text += line;
    write_file(file, text);
    const bool retry_errors = random() % 2 == 0;
    if (resume_refusal(job, path, {.resume = true, .retry_errors = retry_errors}) != "no error") {
      ++num_refused;
      continue;
    }
    run_undisturbed(job, path, {.resume = true, .retry_errors = retry_errors}, random);
    CHECK(is_complete(job, path));
  }
  CHECK(num_refused > 50);
}

TEST_CASE("resume: an ended output with other records, more or fewer of them is refused") {
  std::mt19937 random(15);
  for (const RecordOrder order : kOrders) {
    const Job job = random_job(random, order, 10, false);
    TempDir folder;
    const std::string path = folder / "out";
    run_undisturbed(job, path, {}, random);
    const std::string whole = read_file(path);
    const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
    Job longer = job;
    longer.add(random, false);
    for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
             {whole.substr(0, last), "it was truncated"},
             {"", "it was truncated"},
             {whole + longer.records.back(), "line 11: the run had ended before this record"}}) {
      write_file(path, text);
      CHECK(resume_refusal(longer, path, kResume).find(expected) != std::string::npos);
      CHECK(read_file(path) == text);
    }
    write_file(path, whole);
    CHECK(resume_refusal(longer, path, kResume) == "no error");
  }
}

TEST_CASE("resume: two runs do not write one output") {
  std::mt19937 random(10);
  TempDir folder;
  const Job job = random_job(random, RecordOrder::kInput, 20);
  const auto second = [&] { return resume_refusal(job, folder / "out", kResume); };
  {
    RecordOutput waiting = open_output(job, folder / "out", {}, {});
    CHECK(second() == (folder / "out") + ": another run is writing it");
    waiting.flush({});
    CHECK(second() == (folder / "out") + ": another run is writing it");
  }
  RecordOutput waiting = open_output(job, folder / "out", kResume, {});
  CHECK(second() == (folder / "out") + ": another run is writing it");
}

TEST_CASE("resume: a run does not write a file that another one removes") {
  TempDir folder;
  std::optional<OutputFile> first(std::in_place, folder / "out", OutputFile::Existing::kKeep);
  first->lock();
  OutputFile second(folder / "out", OutputFile::Existing::kKeep);
  first.reset();  // had nothing to write
  CHECK_THROWS_WITH_AS(second.lock(),
                       ((folder / "out") + ": another run has just removed it").c_str(), Error);
}

TEST_CASE("resume: what another version of the program has left is refused, not mixed") {
  std::mt19937 random(12);
  const Job job = random_job(random, RecordOrder::kInput, 20);
  const std::string ours = fmt::format("\"version\":\"{}\",", kStateVersion);
  for (const std::string theirs : {"", "\"version\":\"1\","}) {
    TempDir folder;
    std::set<int64_t> safe;
    REQUIRE_FALSE(run(job, folder / "out", {.steps = 12}, random, safe));
    std::string part = read_file(folder / "out.part");
    part.replace(part.find(ours), ours.size(), theirs);
    write_file(folder / "out.part", part);
    CHECK(resume_refusal(job, folder / "out", kResume)
              .starts_with((folder / "out.part") + ": written by another version of the program "));
    CHECK(read_file(folder / "out.part") == part);
  }
}

TEST_CASE("resume: a mark reads back, and only as it was written") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 1000; ++round) {
    const auto number = [&](int64_t most) { return static_cast<int64_t>(random()) & most; };
    const StateMark mark = {.input = {.lines = number((1LL << 36) - 1), .hash = random()},
                            .output = {.bytes = number((1LL << 46) - 1), .hash = random()},
                            .serial = number((1LL << 36) - 1)};
    std::string line = mark_line(mark);
    REQUIRE(line.size() == kMarkBytes);
    CHECK(parse_mark(line) == mark);
    line[random() % line.size()] ^= 1;
    CHECK_FALSE(parse_mark(line).has_value());
  }
}
