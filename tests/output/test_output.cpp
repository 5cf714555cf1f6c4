#include <doctest/doctest.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "core/error.h"
#include "output/output_file.h"
#include "output/record_output.h"
#include "tests/support/sanitized.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

std::string message_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Records of different lengths, and an order in which they end.
struct Workload {
  std::vector<std::string> records;
  std::vector<int64_t> order;
};

Workload random_workload(std::mt19937& random, int kind) {
  Workload work;
  const size_t longest = kind == 2 ? 30'000 : 40;
  const size_t count = 1 + random() % (kind == 2 ? 200 : 1500);
  for (size_t i = 0; i < count; ++i) {
    const size_t length = random() % longest;
    work.records.push_back(std::to_string(i) + std::string(length, char('a' + i % 26)) + "\n");
  }
  work.order.resize(count);
  std::iota(work.order.begin(), work.order.end(), 0);
  if (kind == 0) std::shuffle(work.order.begin(), work.order.end(), random);
  if (kind == 1) std::rotate(work.order.begin(), work.order.begin() + 1, work.order.end());
  if (kind >= 2) {  // nearly in order
    for (size_t i = 0; i + 1 < count; ++i) {
      std::swap(work.order[i], work.order[std::min(count - 1, i + random() % 20)]);
    }
  }
  if (kind == 3) std::reverse(work.order.begin(), work.order.end());
  return work;
}

std::string join(const std::vector<std::string>& records) {
  return std::accumulate(records.begin(), records.end(), std::string());
}

// The records of a PATH.part, without the header and the hashes.
std::string waiting_in(const std::string& path) {
  std::istringstream text(read_file(path + ".part").substr(part_header({}).size()));
  std::string records;
  for (std::string line; std::getline(text, line);) {
    const std::optional<PartLine> parsed = parse_part_line(line += '\n');
    REQUIRE(parsed.has_value());
    if (!parsed->is_receipt()) records += parsed->record;
  }
  return records;
}

// Reads a pipe to its end.
class PipeReader {
 public:
  PipeReader() {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    write_end = ends[1];
    thread_ = std::thread([this, fd = ends[0]] {
      char piece[4096];
      for (ssize_t count; (count = read(fd, piece, sizeof piece)) > 0;) {
        text_.append(piece, static_cast<size_t>(count));
      }
      close(fd);
    });
  }
  // REQUIRES: every copy of the write end but this one is closed.
  std::string text() {
    close(write_end);
    thread_.join();
    return text_;
  }
  int write_end = -1;

 private:
  std::thread thread_;
  std::string text_;
};

}  // namespace

TEST_CASE("what a file held stays until something is written") {
  using Existing = OutputFile::Existing;
  const TempDir dir;
  const std::string path = dir / "output";
  for (const Existing existing : {Existing::kRefuse, Existing::kReplace, Existing::kAppend}) {
    OutputFile(path, existing).append("dropped\n");
    CHECK(!std::filesystem::exists(path));  // it was made, for nothing
  }
  write_file(path, "old\n");
  for (const Existing existing : {Existing::kReplace, Existing::kAppend}) {
    OutputFile(path, existing).append("dropped\n");
    CHECK(read_file(path) == "old\n");
  }
  {
    OutputFile output(path, Existing::kReplace);
    OutputFile moved(std::move(output));
    moved.append("n");
    moved.flush();
    moved.append("ew");
    moved.flush();
  }
  CHECK(read_file(path) == "new");
  OutputFile(path, Existing::kReplace).close();
  CHECK(read_file(path) == "");
}

TEST_CASE("records come out in the order of the input, whatever order they end in") {
  TempDir folder;
  std::mt19937 random(1);
  for (int run = 0; run < scaled(60); ++run) {
    const Workload work = random_workload(random, run % 4);
    const std::string path = folder / std::to_string(run);
    RecordOutput output(path, {});
    std::vector<bool> done(work.records.size(), false);
    for (const int64_t index : work.order) {
      output.append(index, work.records[static_cast<size_t>(index)]);
      done[static_cast<size_t>(index)] = true;
      if (random() % 50 != 0) continue;
      output.flush({});
      // The output holds the first records, the part file those that wait.
      const auto waits = std::find(done.begin(), done.end(), false);
      const auto turn = static_cast<size_t>(waits - done.begin());
      const std::string part = waiting_in(path);
      CHECK(read_file(path) == join({work.records.begin(), work.records.begin() + long(turn)}));
      for (size_t i = turn; i < done.size() && part.size() < 100'000; ++i) {
        if (done[i]) CHECK(("\n" + part).find("\n" + work.records[i]) != std::string::npos);
      }
    }
    output.finish({});
    CHECK(read_file(path) == join(work.records));
    CHECK_FALSE(std::filesystem::exists(path + ".part"));
  }
}

TEST_CASE("in the order of completion records come out as they are given") {
  TempDir folder;
  std::mt19937 random(2);
  const Workload work = random_workload(random, 0);
  RecordOutput output(folder / "out", {.order = RecordOrder::kCompletion});
  std::string expected;
  for (const int64_t index : work.order) {
    output.append(index, work.records[static_cast<size_t>(index)]);
    expected += work.records[static_cast<size_t>(index)];
    if (random() % 50 != 0) continue;
    output.flush({});
    CHECK(read_file(folder / "out") == expected);
  }
  output.finish({});
  CHECK(read_file(folder / "out") == expected);
  CHECK_FALSE(std::filesystem::exists(folder / "out.part"));
}

TEST_CASE("records through a pipe wait in a file without a name") {
  std::mt19937 random(3);
  for (const bool standard_output : {false, true}) {
    const Workload work = random_workload(random, 0);
    PipeReader reader;
    const int saved = dup(STDOUT_FILENO);
    if (standard_output) dup2(reader.write_end, STDOUT_FILENO);
    {
      const std::string path = "/dev/fd/" + std::to_string(reader.write_end);
      RecordOutput output(standard_output ? "-" : path, {});
      for (const int64_t index : work.order) {
        output.append(index, work.records[static_cast<size_t>(index)]);
        if (random() % 50 == 0) output.flush({});
      }
      output.finish({});
    }
    dup2(saved, STDOUT_FILENO);
    close(saved);
    CHECK(reader.text() == join(work.records));
  }
}

TEST_CASE("a hundred thousand records behind a slow one cost little memory") {
  TempDir folder;
  const auto in_use = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  RecordOutput output(folder / "out", {});
  const std::string record = std::string(200, 'x') + "\n";
  const size_t before = in_use();
  for (int64_t index = 1; index <= 100'000; ++index) {
    output.append(index, record);
    if (index % 64 == 0) output.flush({});
  }
  output.flush({});
  CHECK(in_use() < before + (2 << 20));
  output.append(0, record);
  output.finish({});
  CHECK(std::filesystem::file_size(folder / "out") == 100'001 * record.size());
}

TEST_CASE("the file of waiting records does not grow for ever") {
  TempDir folder;
  const auto part_bytes = [&] { return std::filesystem::file_size(folder / "out.part"); };
  // Every sync empties the part file; without syncs it is emptied when it is large.
  for (const double sync_every : {1., 0.}) {
    std::filesystem::remove(folder / "out");
    RecordOutput output(folder / "out", {.sync_every = sync_every,
                                         .clock = [now = 0.]() mutable { return now += 1; }});
    const size_t most = sync_every > 0 ? part_header({}).size() : 17 << 20;
    std::string expected;
    const auto record = [&](int64_t index) {
      return std::to_string(index) + std::string(sync_every > 0 ? 1 : 100'000, 'x') + "\n";
    };
    for (int64_t index = 0; index < 500; index += 2) {
      output.append(index + 1, record(index + 1));
      output.flush({});
      output.append(index, record(index));
      output.flush({});
      CHECK(part_bytes() <= most);
      expected += record(index) + record(index + 1);
    }
    output.finish({});
    CHECK(read_file(folder / "out") == expected);
  }
}

TEST_CASE("a record stays in the part file until the disk has it in the output") {
  const TempDir folder;
  double now = 0;
  RecordOutput output(folder / "out", {.sync_every = 5, .clock = [&] { return now; }});
  output.append(1, "b\n");
  output.flush({});
  output.append(0, "a\n");
  output.flush({});
  CHECK(read_file(folder / "out") == "a\nb\n");
  CHECK(waiting_in(folder / "out") == "b\n");
  now = 5;
  output.flush({});
  CHECK(waiting_in(folder / "out") == "");
}

TEST_CASE("an existing output is refused, and nothing has changed") {
  TempDir folder;
  const std::string path = folder / "out", part = path + ".part";
  const auto open_it = [&] { RecordOutput(path, {}); };
  write_file(part, "waiting\n");
  CHECK(message_of(open_it).find("out.part: the file exists") != std::string::npos);
  CHECK(message_of(open_it).find("--overwrite") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(read_file(part) == "waiting\n");

  std::filesystem::remove(part);
  write_file(path, "kept\n");
  CHECK(message_of(open_it) ==
        path + ": the file exists; --resume continues it, --overwrite replaces it");
  CHECK(read_file(path) == "kept\n");

  write_file(part, "waiting\n");
  RecordOutput output(path, {.overwrite = true});
  CHECK(read_file(part) == "waiting\n");
  output.append(1, "b\n");
  CHECK(waiting_in(path) == "");
  output.append(0, "a\n");
  output.finish({});
  CHECK(read_file(path) == "a\nb\n");
  CHECK_FALSE(std::filesystem::exists(part));
}

TEST_CASE("without its end an output keeps what was flushed, whole records only") {
  TempDir folder;
  const std::string path = folder / "out";
  {
    RecordOutput output(path, {});
    output.append(0, "zero\n");
    output.append(2, "two\n");
    output.flush({});
    output.append(3, "three\n");
  }
  CHECK(read_file(path) == "zero\n");
  CHECK(waiting_in(path) == "two\n");
}

TEST_CASE("waiting records stay in their file until they are in the output") {
  TempDir folder;
  const std::string path = folder / "out";
  RecordOutput output(path, {});
  output.append(1, "one\n");
  output.flush({});
  output.append(0, std::string(2000, '0') + "\n");

  rlimit saved = {};
  getrlimit(RLIMIT_FSIZE, &saved);
  const rlimit tight = {1000, saved.rlim_max};  // a write beyond 1000 bytes is short, then fails
  std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tight);
  const std::string message = message_of([&] { output.flush({}); });
  setrlimit(RLIMIT_FSIZE, &saved);
  std::signal(SIGXFSZ, SIG_DFL);
  CHECK(message == path + ": cannot write: the file would be longer than the system allows");
  CHECK(read_file(path) == std::string(1000, '0'));
  CHECK(waiting_in(path) == "one\n");

  output.finish({});
  CHECK(read_file(path) == std::string(2000, '0') + "\none\n");
}

TEST_CASE("a full disk is an error that names the file") {
  TempDir folder;
  RecordOutput output("/dev/full", {});
  output.append(0, "x\n");
  CHECK(message_of([&] { output.flush({}); }) == "/dev/full: cannot write: the disk is full");
  CHECK(message_of([&] { output.finish({}); }) == "/dev/full: cannot write: the disk is full");
  CHECK_FALSE(std::filesystem::exists("/dev/full.part"));
}

TEST_CASE("after a failed sync every later sync fails") {
  const TempDir dir;
  bool fails = true;
  FileCalls calls;
  calls.fdatasync = [&](int) { return fails ? (errno = EIO, -1) : 0; };
  OutputFile file(dir / "out", OutputFile::Existing::kRefuse, calls);
  file.append("a\n");
  file.flush();
  for (int i = 0; i < 3; ++i) {
    CHECK(message_of([&] { file.sync(); }) == (dir / "out") + ": cannot sync: Input/output error");
    CHECK_FALSE(file.is_synced());
    fails = false;
  }
}

TEST_CASE("an output that cannot be opened is an error that names it") {
  TempDir folder;
  const std::string absent = folder / "absent/out";
  CHECK(message_of([&] { RecordOutput(absent, {}); }) ==
        absent + ": cannot open for writing: No such file or directory");
  CHECK(message_of([&] { RecordOutput(folder.path(), {.overwrite = true}); }) ==
        folder.path() + ": cannot open for writing: Is a directory");
}

TEST_CASE("a closed pipe is told from other errors") {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  RecordOutput output("/dev/fd/" + std::to_string(ends[1]), {});
  close(ends[0]);
  output.append(0, "x\n");
  CHECK_THROWS_AS(output.flush({}), ClosedPipe);
  close(ends[1]);
  std::signal(SIGPIPE, SIG_DFL);
}

TEST_CASE("appending keeps what a file has and ends its last line") {
  TempDir folder;
  const std::string path = folder / "stats";
  for (const char* line : {"one\n", "two\n"}) {
    OutputFile file(path, OutputFile::Existing::kAppend);
    file.append(line);
    file.close();
  }
  CHECK(read_file(path) == "one\ntwo\n");
  write_file(path, "one\ncut o");
  OutputFile file(path, OutputFile::Existing::kAppend);
  file.append("two\n");
  file.flush();
  CHECK(read_file(path) == "one\ncut o\ntwo\n");
  OutputFile full("/dev/full", OutputFile::Existing::kAppend);
  full.append("x");
  CHECK_THROWS_AS(full.flush(), Error);
}
