// What a run must not touch when it resumes or begins anew.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "output/record_output.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

constexpr int64_t kNumLines = 3000;

std::string line_of(int64_t turn) { return fmt::format("prompt {}", turn); }
std::string record_of(int64_t turn) { return fmt::format("{{\"index\":{}}}\n", turn); }

OutputOptions options_of(RecordOrder order, bool overwrite = false) {
  return {.order = order, .overwrite = overwrite, .fingerprint = {{{"seed", "1"}}}};
}

// Answers all lines but the first, in descending order, and stops.
void leave_behind(const std::string& path, RecordOrder order) {
  RecordOutput output(path, options_of(order));
  RunMark mark;
  for (int64_t turn = 0; turn < kNumLines; ++turn) mark.add(line_of(turn));
  for (int64_t turn = kNumLines - 1; turn > 0; --turn) output.append(turn, record_of(turn));
  output.flush(mark);
}

struct Stop {};

}  // namespace

TEST_CASE("an interrupt while the files of an earlier run are checked changes nothing") {
  for (const RecordOrder order : {RecordOrder::kInput, RecordOrder::kCompletion}) {
    const TempDir dir;
    const std::string path = dir / "out";
    leave_behind(path, order);
    const std::string output = read_file(path), part = read_file(path + ".part");
    CHECK((output + part).size() > 3000 * record_of(0).size());
    const auto resume = [&](int reads, int checks) {
      int64_t turn = 0;
      std::string text;
      const auto next_line = [&]() -> std::optional<InputLine> {
        if (reads-- == 0) throw Stop();
        text = line_of(turn);
        return InputLine{text, turn++};
      };
      const auto check = [&] {
        if (checks-- == 0) throw Stop();
      };
      return RecordOutput::resume(path, options_of(order), {"input", next_line, false, check});
    };
    for (const int reads : {0, 1, 2000}) CHECK_THROWS_AS(resume(reads, 1 << 30), Stop);
    for (const int checks : {0, 1}) CHECK_THROWS_AS(resume(1 << 30, checks), Stop);
    CHECK(read_file(path) == output);
    CHECK(read_file(path + ".part") == part);
    CHECK(resume(1 << 30, 1 << 30).num_done() == kNumLines - 1);
  }
}

TEST_CASE("the disk has the state of a run before its first record, however seldom it syncs") {
  namespace fs = std::filesystem;
  using Acts = std::vector<std::string>;
  const TempDir dir;
  const std::string path = dir / "out", folder = fs::path(dir.path()).filename();
  Acts acts;
  const auto note = [&](const char* verb, int fd) {
    const fs::path file = fs::read_symlink(fmt::format("/proc/self/fd/{}", fd));
    acts.push_back(verb + file.filename().string());
  };
  FileCalls calls;
  calls.write = [&](int fd, const void* data, size_t size) {
    note("write ", fd);
    return ::write(fd, data, size);
  };
  calls.fdatasync = [&](int fd) { return note("sync ", fd), 0; };
  calls.fsync = calls.fdatasync;
  calls.rename = [&](const char* from, const char* to) {
    acts.push_back("rename " + fs::path(from).filename().string());
    return ::rename(from, to);
  };
  const auto take_one = [&](RecordOutput output, int64_t turn) {
    RunMark mark;
    for (int64_t line = 0; line <= turn; ++line) mark.add(line_of(line));
    output.append(turn, record_of(turn));
    output.flush(mark);
    return std::pair(std::move(output), mark);
  };
  OutputOptions options = options_of(RecordOrder::kInput);
  options.calls = calls;
  CHECK(options.sync_every == 0);
  {
    auto [output, mark] = take_one(RecordOutput(path, options), 0);
    CHECK(acts ==
          Acts{"write out.part", "sync out.part", "sync " + folder, "write out.part", "write out"});
    output.finish(mark);
  }
  acts.clear();
  std::string text;
  const auto next_line = [&, turn = int64_t{0}]() mutable -> std::optional<InputLine> {
    if (turn == 2) return std::nullopt;
    text = line_of(turn);
    return InputLine{text, turn++};
  };
  take_one(RecordOutput::resume(path, options, {"input", next_line}), 1);
  CHECK(acts == Acts{"rename out.run", "sync " + folder, "write out.part", "write out"});
}

TEST_CASE("a run that begins anew does not touch the output of one in progress") {
  const TempDir dir;
  const std::string path = dir / "out";
  const auto begin_anew = [&] { return RecordOutput(path, options_of(RecordOrder::kInput, true)); };
  {
    RecordOutput first = begin_anew();
    first.append(0, record_of(0));
    first.flush({});
    const std::string part = read_file(path + ".part");
    CHECK_THROWS_WITH_AS(begin_anew(), (path + ": another run is writing it").c_str(), Error);
    CHECK(read_file(path) == record_of(0));
    CHECK(read_file(path + ".part") == part);
  }
  RecordOutput second = begin_anew();  // the lock of a killed run is released
  second.append(0, record_of(0));
  second.finish({});
}

TEST_CASE("a state that is a link is refused, and what it leads to is not touched") {
  const TempDir dir;
  const std::string path = dir / "out";
  const auto resume = [&] {
    return RecordOutput::resume(path, options_of(RecordOrder::kInput),
                                {"input", [] { return std::optional<InputLine>(); }});
  };
  leave_behind(path, RecordOrder::kInput);
  std::filesystem::rename(path + ".part", dir / "elsewhere");
  const std::string part = read_file(dir / "elsewhere");
  for (const char* ending : {".part", ".run"}) {
    std::filesystem::create_symlink(dir / "elsewhere", path + ending);
    CHECK_THROWS_WITH_AS(
        resume(),
        (path + ending + ": is a symbolic link, expected the file that the run has left").c_str(),
        Error);
    std::filesystem::remove(path + ending);
  }
  std::filesystem::create_symlink(dir / "elsewhere", path + ".part");
  CHECK_THROWS_AS(OutputFile(path + ".part", OutputFile::Existing::kKeepOwn), Error);
  RecordOutput anew(path, options_of(RecordOrder::kInput, true));
  anew.append(0, record_of(0));
  anew.finish({});
  CHECK(read_file(dir / "elsewhere") == part);
  CHECK_FALSE(std::filesystem::is_symlink(path + ".run"));
}

TEST_CASE("a run ends with an error if another program changes its files") {
  namespace fs = std::filesystem;
  using Act = std::function<void(const std::string& path)>;
  const std::vector<std::pair<Act, std::string>> acts = {
      {[](const std::string& path) { fs::resize_file(path, 5); },
       "another program has truncated it"},
      {[](const std::string& path) { std::ofstream(path, std::ios::app) << "{}\n"; },
       "another program has written to it"},
      {[](const std::string& path) { fs::remove(path); }, "was removed while it was written"},
      {[](const std::string& path) { fs::rename(path, path + ".old"); },
       "another program has renamed or replaced it"},
      {[](const std::string& path) {
         fs::rename(path, path + ".old");
         write_file(path, read_file(path + ".old"));
       },
       "another program has renamed or replaced it"}};
  for (const auto& [act, expected] : acts) {
    for (const std::string ending : {"", ".part"}) {
      for (const bool more : {false, true}) {
        const TempDir dir;
        const std::string path = dir / "out";
        RecordOutput output(path, options_of(RecordOrder::kInput));
        for (const int64_t turn : {0, 1, 3}) output.append(turn, record_of(turn));
        output.flush({});
        act(path + ending);
        std::string message = "no error";
        try {
          for (int64_t turn = 4; more && turn < 9; ++turn) {
            output.append(turn, record_of(turn));
            output.flush({});
          }
          for (int64_t turn = more ? 9 : 4; turn < 12; ++turn) output.append(turn, record_of(turn));
          output.append(2, record_of(2));
          output.finish({});
        } catch (const Error& error) {
          message = error.what();
        }
        CAPTURE(message);
        CHECK(message.starts_with(path + ending + ": "));
        CHECK((message.find(expected) != std::string::npos ||
               message.find("cannot read back: ") != std::string::npos));
      }
    }
  }
}

TEST_CASE("a name that is a link is the file's as long as it leads there") {
  const TempDir dir;
  std::filesystem::create_symlink(dir / "file", dir / "out");
  RecordOutput output(dir / "out", options_of(RecordOrder::kInput, true));
  output.append(0, record_of(0));
  output.finish({});
  CHECK(read_file(dir / "file") == record_of(0));
}
