#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "output/merge.h"
#include "output/part_file.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

namespace fs = std::filesystem;

const MergeOptions kTrust = {.trust = true};

std::string record(int64_t index, size_t length = 5) {
  const std::string text(length, static_cast<char>('a' + index % 26));
  return fmt::format("{{\"id\":null,\"index\":{},\"text\":\"{}\"}}\n", index, text);
}

// The records of a whole run, and the shards that hold them.
struct Shards {
  std::string whole = {};
  std::vector<std::vector<std::string>> records = {};
  std::vector<std::string> paths = {};

  void write(const TempDir& dir) {
    for (size_t i = 0; i < records.size(); ++i) {
      paths.push_back(dir / fmt::format("shard {}", i));
      std::string text;
      for (const std::string& line : records[i]) text += line;
      write_file(paths[i], text);
    }
  }
  // Writes the PATH.run of an ended run.
  void write_run(size_t shard, const std::string& name, const RunMark& mark,
                 const std::string& seed = "1") const {
    const Fingerprint fingerprint = {{{"order", "completion"}, {"seed", seed}, {"shard", name}}};
    StateMark state = {.input = mark, .serial = 1};
    for (const std::string& line : records[shard]) state.output.add(line);
    write_file(paths[shard] + ".run",
               mark_line(state) + part_header(fingerprint).substr(size_t{kMarkBytes}));
  }
};

Shards random_shards(std::mt19937& random, int64_t num_records, size_t num_files) {
  Shards shards;
  shards.records.resize(num_files);
  for (int64_t index = 0; index < num_records; ++index) {
    const size_t length = random() % 50 == 0 ? random() % 100'000 : random() % 50;
    shards.whole += record(index, length);
    shards.records[random() % num_files].push_back(record(index, length));
  }
  for (auto& records : shards.records) {
    if (random() % 2 == 0) std::shuffle(records.begin(), records.end(), random);
  }
  return shards;
}

std::set<std::string> names_in(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.insert(entry.path().filename());
  return names;
}

bool leaves_unfinished(const TempDir& dir) {
  const auto names = names_in(dir.path());
  return std::any_of(names.begin(), names.end(),
                     [](const auto& name) { return name.find("merging") != name.npos; });
}

std::string refusal(const std::vector<std::string>& shards, const std::string& output,
                    const MergeOptions& options = kTrust) {
  try {
    merge_shards(shards, output, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("merge: records of any files in any order come in the order of the input") {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    const TempDir dir;
    Shards shards = random_shards(random, static_cast<int64_t>(random() % 400), 1 + random() % 5);
    shards.write(dir);
    std::shuffle(shards.paths.begin(), shards.paths.end(), random);
    const MergeReport report = merge_shards(shards.paths, dir / "out", kTrust);
    CHECK(read_file(dir / "out") == shards.whole);
    CHECK(report.num_records == std::count(shards.whole.begin(), shards.whole.end(), '\n'));
    CHECK_FALSE(leaves_unfinished(dir));
  }
}

TEST_CASE("merge: a record that is missing, doubled, torn or foreign is named") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const TempDir dir;
    Shards shards = random_shards(random, 30, 3);
    auto& records = shards.records[random() % 3];
    if (records.size() < 2) continue;
    const size_t place = random() % (records.size() - 1);
    std::string changed = records[place], expected;
    const std::string index = changed.substr(changed.find("index") + 7);
    const std::string number = index.substr(0, index.find(','));
    const std::string line = fmt::format(": line {}: ", place + 1);
    switch (round % 6) {
      case 0:
        if (number == "29") continue;  // a missing last record cannot be noticed
        records.erase(records.begin() + long(place));
        expected = "index " + number + " is missing: it is in none of the 3 files";
        break;
      case 1:
        shards.records[(size_t(&records - shards.records.data()) + 1) % 3].push_back(changed);
        expected = ": index " + number + " occurs already in ";
        break;
      case 2:
        records[place].pop_back();
        expected = line + "expected a record";
        break;
      case 3:
        records[place] = "{\"index\":\"1\"}\n";
        expected = line + "expected a record";
        break;
      case 4:
        records[place] = record(1'000'000'000'000);
        expected = line + "index 1000000000000, and the files have room for ";
        break;
      default:
        records.back().pop_back();
        expected = fmt::format(": line {}: the record has no end", records.size());
    }
    shards.write(dir);
    const std::string message = refusal(shards.paths, dir / "out");
    CHECK_MESSAGE(message.find(expected) != std::string::npos, message, " has no ", expected);
    CHECK_FALSE(fs::exists(dir / "out"));
    CHECK_FALSE(leaves_unfinished(dir));
  }
}

TEST_CASE("merge: a missing last record is noticed if there is a run file") {
  std::mt19937 random(3);
  const TempDir dir;
  Shards shards;
  shards.records = {{record(0), record(3)}, {record(1), record(4)}, {record(2), record(5)}};
  shards.write(dir);
  const RunMark mark = {.lines = 6, .hash = 7};
  for (size_t i = 0; i < 3; ++i) shards.write_run(i, fmt::format("{}/3", i), mark);
  merge_shards(shards.paths, dir / "out", kTrust);
  write_file(shards.paths[2], record(2));
  CHECK(refusal(shards.paths, dir / "new") == "index 5 is missing: it is in none of the 3 files");
  write_file(shards.paths[2], record(2) + record(5) + record(6));
  CHECK(refusal(shards.paths, dir / "new") ==
        shards.paths[2] + ": line 3: index 6, and its run has read 6 lines");
}

TEST_CASE("merge: shards of other runs are refused by what differs") {
  const TempDir dir;
  Shards shards;
  shards.records = {{record(0)}, {record(1)}, {record(2)}};
  shards.write(dir);
  const auto& paths = shards.paths;
  const RunMark mark = {.lines = 3, .hash = 7};
  for (size_t i = 0; i < 3; ++i) shards.write_run(i, fmt::format("{}/3", i), mark);
  CHECK(refusal({paths[0], paths[1]}, dir / "out") ==
        "shard 2/3 is missing: expected the outputs of all 3");
  CHECK(refusal({paths[0], paths[1], paths[0]}, dir / "out") == paths[0] + ": given twice");
  shards.write_run(1, "1/3", mark, "2");
  CHECK(refusal(paths, dir / "out") ==
        paths[1] + ": seed = 2, and 1 in " + paths[0] + "; expected shards of one run");
  shards.write_run(1, "0/3", mark);
  CHECK(refusal(paths, dir / "out") ==
        paths[1] + ": of shard 0/3, as " + paths[0] + " is; expected each shard once");
  shards.write_run(1, "1/4", mark);
  CHECK(refusal(paths, dir / "out").find("expected shards of one number") != std::string::npos);
  shards.write_run(1, "1/3", {.lines = 2, .hash = 7});
  CHECK(refusal(paths, dir / "out")
            .starts_with(paths[1] + ": its run has read 2 lines, and that of " + paths[0] +
                         " 3; expected shards of one input"));
  shards.write_run(1, "1/3", {.lines = 3, .hash = 8});
  CHECK(refusal(paths, dir / "out").starts_with(paths[1] + ": its run has read other lines than "));
  shards.write_run(1, "1/3", mark);
  write_file(paths[1] + ".part", "");
  CHECK(refusal(paths, dir / "out") ==
        paths[1] + ".part: this run has not ended; complete it with --resume");
  CHECK(refusal({dir / "none"}, dir / "out") ==
        (dir / "none") + ": cannot open: No such file or directory");
  CHECK(fs::exists(dir / "out") == false);
}

TEST_CASE("merge: shards without a run file are accepted only with trust") {
  const TempDir dir;
  Shards shards;
  shards.records = {{record(0)}, {record(1)}};
  shards.write(dir);
  for (size_t told = 0; told < 2; ++told) {
    const std::string expected = shards.paths[told] + ": there is no " + shards.paths[told] +
                                 ".run, so it cannot be checked ";
    CHECK(refusal(shards.paths, dir / "out", {}).starts_with(expected));
    CHECK_FALSE(fs::exists(dir / "out"));
    CHECK(refusal(shards.paths, dir / "out", {.overwrite = true, .trust = true}) == "no error");
    CHECK(read_file(dir / "out") == record(0) + record(1));
    fs::remove(dir / "out");
    shards.write_run(told, fmt::format("{}/2", told), {.lines = 2, .hash = 7});
  }
  CHECK(refusal(shards.paths, dir / "out", {}) == "no error");
}

TEST_CASE("merge: a shard that does not hold what its run has written is refused") {
  const TempDir dir;
  Shards shards;
  shards.records = {{record(0, 30), record(2)}, {record(1), record(3)}};
  shards.write(dir);
  for (size_t i = 0; i < 2; ++i) shards.write_run(i, fmt::format("{}/2", i), {.lines = 4});
  const std::string good = read_file(shards.paths[0]);
  std::string changed = good;
  changed[changed.find("aaa") + 1] = 'b';
  write_file(shards.paths[0], changed);
  CHECK(refusal(shards.paths, dir / "out") ==
        shards.paths[0] + ": a record was changed; this is not what its run has written");
  write_file(shards.paths[0], record(0) + record(2));
  CHECK(refusal(shards.paths, dir / "out").starts_with(shards.paths[0] + ": has "));
  CHECK_FALSE(fs::exists(dir / "out"));
  write_file(shards.paths[0], good);
  CHECK(refusal(shards.paths, dir / "out", {}) == "no error");
}

TEST_CASE("merge: an existing output is replaced only with overwrite, and as a whole") {
  const TempDir dir;
  Shards shards;
  shards.records = {{record(1)}, {record(0)}};
  shards.write(dir);
  const std::string output = dir / "out";
  write_file(output, "old\n");
  write_file(output + ".run", "old");
  CHECK(refusal(shards.paths, output) == output + ": the file exists; --overwrite replaces it");
  const MergeOptions overwrite = {.overwrite = true, .trust = true};
  CHECK(refusal({shards.paths[0]}, output, overwrite) ==
        "index 0 is missing: it is in none of the 1 files");
  CHECK(read_file(output) == "old\n");
  const std::string run = shards.paths[0] + ".run";
  for (const bool is_there : {false, true}) {
    CAPTURE(is_there);
    if (is_there) shards.write_run(0, "0/2", {.lines = 2});
    const std::string text = is_there ? read_file(run) : "";
    CHECK(refusal(shards.paths, run, overwrite).find("is a state file") != std::string::npos);
    CHECK(refusal(shards.paths, shards.paths[0] + ".part", overwrite).find("is a state file") !=
          std::string::npos);
    CHECK((fs::exists(run) ? read_file(run) : "") == text);
  }
  fs::remove(run);
  fs::copy(shards.paths[1], dir / "x.run");
  CHECK(refusal({shards.paths[0], dir / "x.run"}, dir / "x", overwrite)
            .find("x.run is one of the shards") != std::string::npos);
  CHECK(refusal(shards.paths, shards.paths[1], overwrite).find("is one of the shards") !=
        std::string::npos);
  merge_shards(shards.paths, output, overwrite);
  CHECK(read_file(output) == record(0) + record(1));
  CHECK_FALSE(fs::exists(output + ".run"));  // it was about what is replaced
}

TEST_CASE("merge: the output has the run file of a single run, if every shard has one") {
  const TempDir dir;
  Shards shards;
  shards.records = {{record(2), record(0)}, {record(1)}};
  shards.write(dir);
  const std::string output = dir / "out";
  const RunMark input = {.lines = 3, .hash = 7};
  for (size_t i = 0; i < 2; ++i) {
    refusal(shards.paths, output, {.overwrite = true, .trust = true});
    CHECK_FALSE(fs::exists(output + ".run"));  // nothing tells whether the shards fit
    shards.write_run(i, fmt::format("{}/2", i), input);
  }
  write_file(output + ".run", "old");
  CHECK(refusal(shards.paths, output, {.overwrite = true}) == "no error");
  const std::optional<PartHeader> header = read_part_header(output + ".run");
  REQUIRE(header);
  OutputPrefix contents;
  for (int64_t index = 0; index < 3; ++index) contents.add(record(index));
  CHECK(header->mark.input == input);
  CHECK(header->mark.output == contents);
  CHECK_FALSE(first_difference(header->fingerprint, {{{"order", "input"}, {"seed", "1"}}}));
  CHECK(names_in(dir.path()) == std::set<std::string>{"out", "out.run", "shard 0", "shard 0.run",
                                                      "shard 1", "shard 1.run"});
}

TEST_CASE("merge: a shard of another version is refused without a word of new runs") {
  const TempDir dir;
  Shards shards;
  shards.records = {{record(0)}};
  shards.write(dir);
  shards.write_run(0, "0/1", {.lines = 1});
  std::string text = read_file(shards.paths[0] + ".run");
  const std::string version = fmt::format("\"version\":\"{}\"", kStateVersion);
  REQUIRE(text.find(version) != std::string::npos);
  write_file(shards.paths[0] + ".run",
             text.replace(text.find(version), version.size(), "\"version\":\"0\""));
  const std::string message = refusal(shards.paths, dir / "out");
  CAPTURE(message);
  CHECK(message.find("state version 0") != std::string::npos);
  CHECK(message.find("merge the shards with the version") != std::string::npos);
  CHECK(message.find("--overwrite") == std::string::npos);
}

TEST_CASE("merge: an existing file with the name of its temporary file is not touched") {
  const TempDir dir;
  Shards shards;
  shards.records = {{record(1)}, {record(0)}};
  shards.write(dir);
  const std::string output = dir / "out";
  write_file(dir / "victim", "precious\n");
  std::set<std::string> names = {"victim", "shard 0", "shard 1", "out"};
  for (const std::string ending : {"", "-0", "-1"}) {
    const std::string pid = ending.empty() ? "" : fmt::format("-{}", getpid());
    names.insert("out.merging" + pid + ending);
    fs::create_symlink(dir / "victim", output + ".merging" + pid + ending);
  }
  merge_shards(shards.paths, output, kTrust);
  CHECK(read_file(output) == record(0) + record(1));
  CHECK_FALSE(fs::is_symlink(output));
  CHECK(read_file(dir / "victim") == "precious\n");
  CHECK(names_in(dir.path()) == names);
}

TEST_CASE("merge: temporary files of dead merges go, those of others stay") {
  const TempDir dir;
  const std::string output = dir / "out", alive = output + ".merging-7-1";
  Shards shards;
  shards.records = {{record(0)}, {record(1)}};
  shards.write(dir);
  shards.records.push_back({record(2)});
  shards.paths.push_back(output + ".merging-7-2");  // what a user has saved
  write_file(shards.paths.back(), record(2));
  std::set<std::string> names = names_in(dir.path());
  for (const char* other :
       {"out.merging-7-1", "out.merging-7-1.part", "out.merging-7", "out.part-7-1",
        "out.merging-7-", "out.merging--1", "out.merging-x7-1", "ou.merging-7-1"}) {
    write_file(dir / other, "other\n");
    names.insert(other);
  }
  fs::create_directory(output + ".merging-7-3");
  fs::create_symlink(dir / "shard 0", output + ".merging-7-4");
  names.insert({"out.merging-7-3", "out.merging-7-4"});
  const int holder = open(alive.c_str(), O_RDWR);
  REQUIRE(flock(holder, LOCK_EX | LOCK_NB) == 0);
  for (const char* dead : {"out.merging-7-0", "out.merging-123456789-10"}) {
    write_file(dir / dead, record(0));
  }
  // Its own one is locked until it has its name.
  std::string own;
  FileCalls calls;
  calls.rename = [&](const char* from, const char* to) {
    const int other = open(from, O_RDWR);
    CHECK(flock(other, LOCK_EX | LOCK_NB) == -1);
    close(other);
    own = from;
    return ::rename(from, to);
  };
  merge_shards(shards.paths, output, {.trust = true, .calls = calls});
  CHECK(own == fmt::format("{}.merging-{}-0", output, getpid()));
  names.insert("out");
  CHECK(names_in(dir.path()) == names);
  CHECK(read_file(output) == record(0) + record(1) + record(2));
  close(holder);
  merge_shards(shards.paths, output, {.overwrite = true, .trust = true});
  names.erase("out.merging-7-1");
  CHECK(names_in(dir.path()) == names);
}

TEST_CASE("merge: when a system call fails the output is unchanged") {
  const TempDir dir;
  Shards shards;
  shards.records = {{record(1, 3'000'000)}, {record(0)}};
  shards.write(dir);
  for (size_t i = 0; i < 2; ++i) shards.write_run(i, fmt::format("{}/2", i), {.lines = 2});
  const std::string output = dir / "out";
  bool succeeded = false;
  for (int at = 0; !succeeded; ++at) {
    write_file(output, "old\n");
    int left = at;
    const auto fails = [&] { return left-- == 0; };
    FileCalls calls;
    calls.write = [&](int fd, const void* data, size_t size) -> ssize_t {
      return fails() ? (errno = ENOSPC, -1) : ::write(fd, data, size);
    };
    calls.fdatasync = [&](int) { return fails() ? (errno = EIO, -1) : 0; };
    calls.rename = [&](const char* from, const char* to) {
      return fails() ? (errno = EIO, -1) : ::rename(from, to);
    };
    const std::string message = refusal(shards.paths, output, {.overwrite = true, .calls = calls});
    succeeded = message == "no error";
    CHECK(read_file(output) == (succeeded ? record(0) + record(1, 3'000'000) : "old\n"));
    CHECK(fs::exists(output + ".run") == succeeded);
    CHECK_FALSE(leaves_unfinished(dir));
    REQUIRE(at < 20);
  }
}
