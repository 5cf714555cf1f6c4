#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "io/line_reader.h"
#include "tests/support/gzip.h"
#include "tests/support/support.h"
#include "tests/support/zstd.h"

using namespace pagedinfer;

namespace {

struct Lines {
  std::vector<std::string> lines = {};
  std::string error = {};  // what ended them
};

Lines read_lines(const std::string& path) {
  Lines result;
  try {
    LineReader reader(path);
    while (const auto line = reader.next()) result.lines.emplace_back(line->text);
  } catch (const Error& error) {
    result.error = error.what();
  }
  return result;
}

// A form of packing.
struct Form {
  const char* name;
  const char* file;
  std::string (*pack)(std::string_view text, int level);
};

constexpr Form kForms[] = {
    {"gzip", "in.gz", [](std::string_view text, int level) { return gzip(text, level); }},
    {"zstd", "in.zst", [](std::string_view text, int level) { return zstd(text, level); }}};

Lines read_bytes(const TempDir& dir, const Form& form, const std::string& bytes) {
  write_file(dir / form.file, bytes);
  return read_lines(dir / form.file);
}

std::string random_text(std::mt19937& random, size_t size) {
  std::string text;
  while (text.size() < size) {
    for (auto left = random() % 60; left > 0; --left) text += static_cast<char>('a' + random() % 9);
    text += random() % 5 == 0 ? "\r\n\n" : "\n";
  }
  return text;
}

// Packed in a random number of members, empty ones among them.
std::string random_members(std::mt19937& random, const Form& form, std::string_view text) {
  std::string packed;
  do {
    const std::string_view piece = text.substr(0, random() % (text.size() + 1));
    packed += form.pack(piece, static_cast<int>(random() % 10));
    text.remove_prefix(piece.size());
  } while (!text.empty() && random() % 8 != 0);
  return packed + (text.empty() ? "" : form.pack(text, 1));
}

bool begins_with(const std::vector<std::string>& all, const std::vector<std::string>& lines) {
  return lines.size() <= all.size() && std::equal(lines.begin(), lines.end(), all.begin());
}

}  // namespace

TEST_CASE("packed lines are those of the file that was packed") {
  const TempDir dir;
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::string text = random_text(random, round % 20 == 0 ? 2 << 20 : random() % 3000);
    write_file(dir / "plain", text);
    const Form& form = kForms[round % 2];
    std::string packed = random_members(random, form, text);
    if (round % 6 == 0) packed += std::string(random() % 600, '\0');  // as tapes have it
    const Lines expected = read_lines(dir / "plain"), found = read_bytes(dir, form, packed);
    CHECK(found.error == "");
    CHECK(found.lines == expected.lines);
  }
}

TEST_CASE("packed data are recognized by their first bytes, also in a pipe") {
  const TempDir dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const std::string text = random_text(random, 1 + random() % 300);
    write_file(dir / "plain", text);
    const std::string packed = random_members(random, kForms[round % 2], text);
    LineReader reader(dir / "pipe");
    std::thread writer([&] {
      const int fd = open((dir / "pipe").c_str(), O_WRONLY);
      for (const char byte : packed) {
        if (write(fd, &byte, 1) != 1) std::abort();
      }
      close(fd);
    });
    std::vector<std::string> lines;
    while (const auto line = reader.next()) lines.emplace_back(line->text);
    writer.join();
    CHECK(lines == read_lines(dir / "plain").lines);
  }
}

TEST_CASE("packed data cut at any byte give the lines before it and an error") {
  const TempDir dir;
  std::mt19937 random(3);
  const std::string text = random_text(random, 4000);
  const size_t half = text.find('\n', 1500) + 1;
  for (const Form& form : kForms) {
    const std::string first = form.pack(text.substr(0, half), 5);
    const std::string packed = first + form.pack(text.substr(half), 5);
    const std::string path = dir / form.file, name = form.name;
    const std::vector<std::string> all = read_bytes(dir, form, packed).lines;
    const size_t magic = form.pack("", 1).starts_with("\x1F") ? 2 : 4;
    size_t most = 0;
    for (size_t size = 0; size < packed.size(); ++size) {
      const Lines found = read_bytes(dir, form, packed.substr(0, size));
      CAPTURE(size);
      CHECK(begins_with(all, found.lines));
      most = std::max(most, found.lines.size());
      if (size == first.size()) {
        CHECK(found.error == "");  // a whole file of one member
      } else if (size < magic) {
        CHECK(found.error.starts_with(path + ": expected " + name +
                                      " data, as its name says; found "));
      } else {
        CHECK(found.error == path + ": the " + name + " data end at byte " + std::to_string(size) +
                                 ", in the middle: the file is incomplete");
      }
    }
    CHECK(most + 1 >= all.size());
  }
}

TEST_CASE("damaged packed data are an error or do no harm, and never other lines at the end") {
  const TempDir dir;
  std::mt19937 random(4);
  const std::string text = random_text(random, 3000);
  for (const Form& form : kForms) {
    const std::string packed = form.pack(text, 5);
    const std::string fault = (dir / form.file) + ": the " + form.name + " data ";
    const std::vector<std::string> all = read_bytes(dir, form, packed).lines;
    int harmless = 0;
    for (size_t place = form.name == kForms[0].name ? 2 : 4; place < packed.size(); ++place) {
      std::string broken = packed;
      broken[place] = static_cast<char>(broken[place] ^ (1 << random() % 8));
      const Lines found = read_bytes(dir, form, broken);
      CAPTURE(place);
      if (found.error.empty()) {
        CHECK(found.lines == all);
        ++harmless;
      } else {
        CHECK(found.error.starts_with(fault));
      }
    }
    CHECK(harmless < 12);  // a time stamp, and flags without effect
    const Lines behind = read_bytes(dir, form, packed + "{}\n{}");
    CHECK(behind.lines == all);
    CHECK(behind.error.starts_with(fault + "are damaged at or before byte "));
  }
}

TEST_CASE("what the zstd command writes is read, and a window above its limit is refused") {
  const TempDir dir;
  std::mt19937 random(5);
  write_file(dir / "plain", random_text(random, 3 << 20));
  const Lines expected = read_lines(dir / "plain");
  for (const char* const flags : {"-1", "-19", "--fast=5", "--long=27", "-T2", "--no-check"}) {
    CAPTURE(flags);
    REQUIRE(std::system(
                ("zstd -qf " + std::string(flags) + " " + (dir / "plain") + " -o " + (dir / "in"))
                    .c_str()) == 0);
    CHECK(read_lines(dir / "in").lines == expected.lines);
  }
  write_file(dir / "in.zst", zstd("a\n", 3, 28));
  const Lines found = read_lines(dir / "in.zst");
  CHECK(found.lines.empty());
  CHECK(found.error.starts_with((dir / "in.zst") + ": the zstd data are damaged"));
  CHECK(found.error.ends_with("the window is above 128 MiB; zstd -d --long=31 unpacks it"));
}

TEST_CASE("packed data are given in pieces of any size") {
  const TempDir dir;
  std::mt19937 random(6);
  for (int round = 0; round < 60; ++round) {
    const std::string text = random_text(random, random() % 5000);
    write_file(dir / "in", round % 3 == 0 ? gzip(text) : zstd(text, 3, 0, round % 3 == 1));
    InputBytes bytes(dir / "in", -1);
    std::string found, piece(4 + random() % 100, '\0');
    while (const int64_t count = bytes.read(piece.data(), std::ssize(piece))) {
      found.append(piece, 0, static_cast<size_t>(count));
    }
    CHECK(found == text);
  }
}

TEST_CASE("what a writer has flushed is given before more of it is awaited") {
  std::mt19937 random(7);
  const std::string text = random_text(random, 5000), packed = zstd(text, 3, 20, false);
  constexpr size_t kEmptyBlock = 3;  // the end of a frame that was flushed before
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto flushed = static_cast<ssize_t>(packed.size() - kEmptyBlock);
  REQUIRE(write(ends[1], packed.data(), packed.size() - kEmptyBlock) == flushed);
  int stop[2];
  REQUIRE(pipe(stop) == 0);
  std::atomic<bool> is_read = false;
  std::thread watch([&] {
    for (int i = 0; i < 500 && !is_read; ++i) usleep(10000);
    if (!is_read) close(stop[1]);  // a read that waits returns 0
  });
  InputBytes bytes("/proc/self/fd/" + std::to_string(ends[0]), stop[0]);
  std::string found, piece(10, '\0');
  while (found.size() < text.size()) {
    const int64_t count = bytes.read(piece.data(), std::ssize(piece));
    if (count == 0) break;
    found.append(piece, 0, static_cast<size_t>(count));
  }
  is_read = true;
  watch.join();
  CHECK(found == text);
  for (const int fd : {ends[0], ends[1], stop[0]}) close(fd);
}

TEST_CASE("a giant packed line is cut at the limit in little memory") {
  const TempDir dir;
  for (const Form& form : kForms) {
    write_file(dir / form.file, form.pack("a\n" + std::string(40 << 20, 'x') + "\nb", 3));
    LineReader reader(dir / form.file, -1, 1000);
    CHECK(reader.next()->text == "a");
    CHECK(reader.next()->text == std::string(1001, 'x'));
    CHECK(reader.next()->text == "b");
    CHECK_FALSE(reader.next());
  }
}
