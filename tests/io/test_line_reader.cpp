#include <doctest/doctest.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "core/error.h"
#include "io/line_reader.h"
#include "tests/support/line_oracle.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

std::vector<NumberedLine> read_all(LineReader& reader) {
  std::vector<NumberedLine> lines;
  while (const auto line = reader.next()) {
    int sum = 0;  // an address sanitizer sees when the padding is not ours
    for (int64_t i = 0; i < kLinePadding; ++i) sum += line->text.data()[line->text.size() + i];
    if (sum == 1 << 20) std::abort();
    lines.push_back({std::string(line->text), line->number});
  }
  return lines;
}

std::vector<NumberedLine> read_all(const std::string& path, int64_t limit = kMaxLineBytes) {
  LineReader reader(path, -1, limit);
  return read_all(reader);
}

// A line just beyond the limit, with a byte-order mark and a \r that are removed before it is
// measured.
std::string deceptive_input(int64_t limit) {
  return "\xEF\xBB\xBF" + std::string(static_cast<size_t>(limit), 'x') + "\r" +
         std::string(200, 'y');
}

std::string random_input(std::mt19937& random) {
  std::string input = random() % 4 == 0 ? "\xEF\xBB\xBF" : "";
  const std::string letters("ab{ \t\r\n\n\n\0\xEF\xBB\xBF", 13);
  for (auto left = random() % 200; left > 0; --left) {
    input += letters[random() % letters.size()];
    if (random() % 8 == 0) input += "\r\n";
    if (random() % 32 == 0) input += std::string(random() % 100, 'x');
  }
  return input;
}

std::string make_fifo(const TempDir& folder, const char* name) {
  const std::string path = folder / name;
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  return path;
}

// Writes `bytes` in pieces of random size.
void feed(const std::string& path, std::string_view bytes, unsigned seed) {
  std::mt19937 random(seed);
  const int fd = open(path.c_str(), O_WRONLY);
  while (!bytes.empty()) {
    const size_t size = std::min<size_t>(bytes.size(), 1 + random() % 60);
    const ssize_t count = write(fd, bytes.data(), size);
    if (count < 0) std::abort();
    bytes.remove_prefix(static_cast<size_t>(count));
    if (random() % 4 == 0) std::this_thread::yield();
  }
  close(fd);
}

}  // namespace

TEST_CASE("the lines of a file are those of a plain split") {
  TempDir folder;
  std::mt19937 random(1);
  for (int run = 0; run < 500; ++run) {
    const std::string input = random_input(random);
    write_file(folder / "in", input);
    const int64_t limit = run % 2 == 0 ? kMaxLineBytes : static_cast<int64_t>(random() % 60);
    CHECK(read_all(folder / "in", limit) == split(input, limit));
  }
}

TEST_CASE("the lines of a pipe do not depend on the pieces they arrive in") {
  TempDir folder;
  const std::string fifo = make_fifo(folder, "pipe");
  std::mt19937 random(2);
  for (int run = 0; run < 300; ++run) {
    const int64_t limit = run % 2 == 0 ? kMaxLineBytes : static_cast<int64_t>(random() % 60);
    const std::string input = run % 8 == 1 ? deceptive_input(limit) : random_input(random);
    // The reader stays open until the writer is done: it must never miss its reader.
    LineReader reader(fifo, -1, limit);
    std::thread writer(feed, fifo, std::string_view(input), random());
    const auto lines = read_all(reader);
    writer.join();
    CHECK(lines == split(input, limit));
  }
}

TEST_CASE("buffered lines are returned without reading, and none is lost") {
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  const auto feed_bytes = [&](std::string_view bytes) {
    REQUIRE(write(fds[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  };
  LineReader reader("/proc/self/fd/" + std::to_string(fds[0]));
  CHECK(!reader.next_ready());
  feed_bytes("one\ntwo\n \n\nhalf");
  CHECK(!reader.next_ready());  // not even looked for
  CHECK(reader.next()->text == "one");
  CHECK(reader.next_ready()->text == "two");
  CHECK(!reader.next_ready());  // blank lines and half a line
  CHECK(!reader.next_ready());
  feed_bytes(" a line\nlast");
  const auto line = reader.next();
  CHECK(line->text == "half a line");
  CHECK(line->number == 5);
  close(fds[1]);
  CHECK(!reader.next_ready());
  CHECK(reader.next()->text == "last");
  CHECK(!reader.next_ready());
  CHECK(!reader.next());
  close(fds[0]);
}

TEST_CASE("standard input is read to its end") {
  TempDir folder;
  write_file(folder / "in", "one\ntwo");
  const int saved = dup(STDIN_FILENO), file = open((folder / "in").c_str(), O_RDONLY);
  dup2(file, STDIN_FILENO);
  const auto lines = read_all("-");
  dup2(saved, STDIN_FILENO);
  close(saved), close(file);
  CHECK(lines == std::vector<NumberedLine>{{"one", 1}, {"two", 2}});
}

TEST_CASE("a giant line is read whole and its memory given back") {
  TempDir folder;
  const std::string giant(64 << 20, 'g');
  write_file(folder / "in", "a\n" + giant + "\nb\n" + std::string(1 << 20, 'c') + "\nd");
  const auto in_use = [] { return mallinfo2().hblkhd; };
  LineReader reader(folder / "in");
  const size_t before = in_use();
  CHECK(reader.next()->text == "a");
  CHECK(reader.next()->text == giant);
  CHECK(reader.next()->text == "b");
  CHECK(reader.next()->text.size() == 1 << 20);
  CHECK(reader.next()->text == "d");
  CHECK_FALSE(reader.next());
  CHECK(in_use() < before + (4 << 20));
}

TEST_CASE("of a line beyond the limit little is kept, whatever its length") {
  TempDir folder;
  const std::string spaces(40 << 20, ' ');
  write_file(folder / "in", "a\n" + spaces + "x\nb\n" + spaces + "\r\n" + spaces);
  const int64_t limit = 1 << 20;
  LineReader reader(folder / "in", -1, limit);
  const size_t before = mallinfo2().hblkhd;
  CHECK(reader.next()->text == "a");
  CHECK(reader.next()->text == spaces.substr(0, limit + 1));
  CHECK(mallinfo2().hblkhd < before + (8 << 20));
  CHECK(reader.next()->text == "b");
  CHECK(reader.next()->number == 4);
  CHECK(reader.next()->number == 5);
  CHECK_FALSE(reader.next());
}

TEST_CASE("ten million blank lines are counted and skipped") {
  TempDir folder;
  std::string text(10'000'000, '\n');
  text += 'x';
  write_file(folder / "in", text);
  CHECK(read_all(folder / "in") == std::vector<NumberedLine>{{"x", 10'000'001}});
}

TEST_CASE("a reader that waits for input can be stopped") {
  TempDir folder;
  const std::string fifo = make_fifo(folder, "pipe");
  for (const bool has_writer : {false, true}) {
    const int stop = eventfd(0, 0);
    LineReader reader(fifo, stop);
    int writer = -1;
    if (has_writer) {
      writer = open(fifo.c_str(), O_WRONLY);
      REQUIRE(write(writer, "one\nhalf", 8) == 8);
      CHECK(reader.next()->text == "one");
    }
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      eventfd_write(stop, 1);
    });
    CHECK_FALSE(reader.next());
    CHECK_FALSE(reader.next());
    later.join();
    close(stop);
    if (has_writer) close(writer);
  }
}

TEST_CASE("a file that becomes shorter while it is read is an error, and no line of it is half") {
  TempDir folder;
  const std::string path = folder / "in";
  const std::string line(1000, 'x');
  std::string text;
  while (text.size() < 1 << 20) text += line + "\n";
  write_file(path, text);
  LineReader reader(path);
  std::string message;
  try {
    for (int64_t count = 0;; ++count) {
      const auto next = reader.next();
      REQUIRE(next);
      CHECK(next->text == line);
      if (count == 0) std::filesystem::resize_file(path, 300'000);  // in the middle of a line
    }
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message == path + ": ends at byte 300000, had " + std::to_string(text.size()) +
                       " when it was opened: it was truncated");
}

TEST_CASE("an input that cannot be read is an error that names it") {
  TempDir folder;
  const auto message_of = [](const std::string& path) -> std::string {
    try {
      read_all(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string absent = folder / "absent";
  CHECK(message_of(absent) == absent + ": cannot open: No such file or directory");
  CHECK(message_of(folder.path()) == folder.path() + ": cannot read: Is a directory");
  CHECK(message_of("/proc/self/mem") == "/proc/self/mem: cannot read: Input/output error");
}
