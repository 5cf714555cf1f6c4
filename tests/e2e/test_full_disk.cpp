// A disk that has no more room, and a file that may not grow: whichever file meets it, the run
// says so, and goes on from there later.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

// A first line that takes longest, so that in the order of the input the others wait in the part
// file, also if threads that read lines have to wait for the processor. The others have ids that
// make their records long, and are few: in the order of completion a page of 4 KiB holds the part
// file, so that the output is what has no room.
std::string lines_with_long_ids() {
  constexpr int kCount = 60;
  std::string text = R"({"prompt_token_ids":[5],"ignore_eos":true,"max_tokens":3000})"
                     "\n";
  for (int i = 1; i < kCount; ++i) {
    text += fmt::format(R"({{"id":"{:0>1200}","prompt_token_ids":[{}],"max_tokens":2}})", i, 5 + i);
    text += '\n';
  }
  return text;
}

std::multiset<std::string> sorted(const std::string& records) {
  std::istringstream text(records);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.insert(line);
  return lines;
}

bool same(const std::string& order, const std::string& a, const std::string& b) {
  return order == "input" ? a == b : sorted(a) == sorted(b);
}

Words shell(const std::string& script, const Words& words) {
  return Words{"/bin/sh", "-c", script, "sh"} + words;
}

Words job(const TempDir& dir, const std::string& order, const Words& more) {
  return command(Words{"run", "--input", dir / "in.jsonl", "--order", order, "--max-batch-size",
                       "8", "--threads", "1"} +
                 more);
}

std::string undisturbed(const TempDir& dir, const std::string& order) {
  write_file(dir / "in.jsonl", lines_with_long_ids());
  const Ended ended =
      run_program(job(dir, order, {"--output", dir / "whole", "--stats", "/dev/null"}));
  REQUIRE(ended.exit_code == 0);
  return read_file(dir / "whole");
}

// Mounts a small disk at $1 for itself alone and runs the rest of its words there; then makes it
// larger, runs them again with --resume, and leaves what is there in $2.
constexpr const char* kOnSmallDisk = R"(
  mount -t tmpfs -o size=$3 tmpfs "$1" || exit 77
  disk=$1; result=$2; shift 3
  "$@"; echo "code $?" >&2
  mount -o remount,size=16m "$disk" || exit 77
  "$@" --resume; code=$?
  cp "$disk"/* "$result"
  exit $code
)";

bool can_mount() {
  const TempDir dir;
  return run_program(Words{"/usr/bin/env", "unshare", "--user", "--map-root-user", "--mount",
                           "/bin/sh", "-c", "mount -t tmpfs tmpfs \"$1\"", "sh", dir.path()})
             .exit_code == 0;
}

}  // namespace

TEST_CASE("a disk that fills up ends the run, and with room again it goes on to the same bytes") {
  if (!can_mount()) {
    MESSAGE("SKIPPED: not allowed to mount a disk here");
    return;
  }
  for (const std::string order : {"input", "completion"}) {
    const TempDir dir;
    const std::string expected = undisturbed(dir, order);
    fs::create_directory(dir / "disk");
    // What stands on the small disk, and which of it is named as having no room.
    struct Case {
      Words flags;
      std::string name;
    };
    const Words nowhere = {"--stats", "/dev/null"};
    for (const auto& [flags, name] :
         {Case{Words{"--output", dir / "disk/out"} + nowhere,
               order == "input" ? "disk/out.part" : "disk/out"},
          Case{{"--output", dir / "out", "--stats", dir / "disk/stats"}, "disk/stats"},
          Case{Words{"--output", dir / "out", "--trace", dir / "disk/trace"} + nowhere,
               "disk/trace"}}) {
      CAPTURE(order);
      CAPTURE(name);
      for (const char* ending : {"out", "out.part", "out.run"}) fs::remove(dir / ending);
      fs::create_directory(dir / "result");
      const Words words =
          Words{"/usr/bin/env", "unshare", "--user", "--map-root-user", "--mount"} +
          shell(kOnSmallDisk, {dir / "disk", dir / "result", name == "disk/trace" ? "8k" : "20k"}) +
          job(dir, order, flags);
      const Ended ended = run_program(words);
      CAPTURE(ended.err);
      // Only the completions are worth ending for.
      const bool ends = name.starts_with("disk/out");
      CHECK(ended.err.find(ends ? "code 1\n" : "code 0\n") != std::string::npos);
      CHECK(ended.err.find(dir / name + ": cannot write: the disk is full" + (ends ? "\n" : ";")) !=
            std::string::npos);
      CHECK(ended.exit_code == 0);
      const bool on_disk = fs::exists(dir / "result/out");
      CHECK(same(order, read_file(dir / (on_disk ? "result/out" : "out")), expected));
      fs::remove_all(dir / "result");
    }
  }
}

TEST_CASE("a file that may not grow ends the run, and later it goes on to the same bytes") {
  for (const std::string order : {"input", "completion"}) {
    const TempDir dir;
    const std::string expected = undisturbed(dir, order);
    const Words flags = {"--output", dir / "out", "--stats", "/dev/null"};
    // In the order of the input the part file is the first one to be long.
    const std::string name = order == "input" ? "out.part" : "out";
    const Ended ended = run_program(shell("ulimit -f 16; exec \"$@\"", job(dir, order, flags)));
    CAPTURE(ended.err);
    CHECK(ended.exit_code == 1);
    CHECK(ended.err.find(dir / name +
                         ": cannot write: the file would be longer than the system allows\n") !=
          std::string::npos);
    CHECK(ended.err.find("--resume goes on") != std::string::npos);
    const Ended resumed = run_program(job(dir, order, flags + Words{"--resume"}));
    CHECK(resumed.exit_code == 0);
    CHECK(resumed.err.find(" resumed") != std::string::npos);
    CHECK(same(order, read_file(dir / "out"), expected));
  }
}

}  // namespace pagedinfer
