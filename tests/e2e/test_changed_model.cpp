// Files of a model that another program changes while a run uses them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

const Words kInPlace = {"--pack-weights", "off"};

// A run over a copy of a model, whose weights are changed when it has answered half of its lines
// and waits for the others.
class ChangedRun {
  const TempDir dir_;

 public:
  explicit ChangedRun(Words flags) : flags_(std::move(flags)) {
    fs::copy(source_dir() + "/datasets/story-qwen3", dir_ / "model");
    write_file(dir_ / "in", lines_);
    REQUIRE(run(words("whole", dir_ / "in")).exit_code == 0);
  }

  const std::string weights = dir_ / "model/model.safetensors";
  const std::string bytes = read_file(source_dir() + "/datasets/story-qwen3/model.safetensors");

  Ended change(const std::function<void()>& change) {
    Process process(command(Words{"run"} + words("out", "-")));
    const size_t half = lines_.find('\n', lines_.size() / 2) + 1;
    const auto num_first =
        std::count(lines_.begin(), lines_.begin() + static_cast<long>(half), '\n');
    process.write(lines_.substr(0, half));
    CHECK(process.wait_until([&] {
      const std::string records = output();
      return std::count(records.begin(), records.end(), '\n') == num_first;
    }));
    change();
    process.write(lines_.substr(half));
    process.close_input();
    return process.wait();
  }
  // All tensors become zeros, in the same file.
  void overwrite() const {
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<long>(8 + header_bytes));
    file << std::string(bytes.size() - 8 - header_bytes, 0);
  }
  void put_back() const {
    fs::remove(weights);
    fs::copy(source_dir() + "/datasets/story-qwen3/model.safetensors", weights);
  }

  Ended resume() const { return run(words("out", dir_ / "in") + Words{"--resume"}); }
  std::string output() const { return read_file(dir_ / "out"); }
  std::string undisturbed() const { return read_file(dir_ / "whole"); }
  std::string path(std::string_view name) const { return dir_ / name; }

 private:
  Words words(std::string_view output, const std::string& input) const {
    return Words{"--model", dir_ / "model", "--input", input, "--output", dir_ / output} + flags_;
  }

  const Words flags_;
  const std::string lines_ = uneven_lines(40);
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("weights that are overwritten end a run; with the old ones it resumes as undisturbed") {
  for (const Words& flags : {kInPlace, kInPlace + Words{"--max-batch-size", "3"},
                             kInPlace + Words{"--order", "completion"}}) {
    ChangedRun run(flags);
    const Ended ended = run.change([&] { run.overwrite(); });
    CHECK(ended.exit_code == 1);
    CHECK(has(ended.err, run.weights + ": another program has changed the file while it was in "
                                       "use: found 2042928 bytes, "));
    CHECK(has(ended.err, "--resume goes on"));
    CHECK(run.output().size() < run.undisturbed().size());
    CHECK(has(run.resume().err, "the run began with model.safetensors = 2042928 bytes, "));

    run.put_back();
    CHECK(run.resume().exit_code == 0);
    const auto sorted = [](const std::string& text) {
      std::set<std::string> lines;
      for (const Json& line : json_lines(text)) lines.insert(line.line());
      return lines;
    };
    CHECK(sorted(run.output()) == sorted(run.undisturbed()));
    if (flags.back() != "completion") CHECK(run.output() == run.undisturbed());
  }
}

TEST_CASE("weights that are truncated end a run with a sentence, not with a signal") {
  for (const size_t left : {size_t{0}, size_t{8192}, size_t{1'000'000}}) {
    CAPTURE(left);
    ChangedRun run(kInPlace);
    const Ended ended = run.change([&] { fs::resize_file(run.weights, left); });
    CHECK(ended.exit_code == 1);
    CHECK(has(ended.err, run.weights + ": cannot read a part of the file that was there before: "
                                       "another program has truncated it, or the disk has "
                                       "failed\n"));
    CHECK(run.undisturbed().starts_with(run.output()));

    run.put_back();
    CHECK(run.resume().exit_code == 0);
    CHECK(run.output() == run.undisturbed());
  }
}

TEST_CASE("weights whose end is cut off within a page are noticed") {
  ChangedRun run(kInPlace);
  const Ended ended = run.change([&] { fs::resize_file(run.weights, run.bytes.size() - 1000); });
  CHECK(ended.exit_code == 1);
  CHECK(has(ended.err, "found 2041928 bytes"));
  run.put_back();
  CHECK(run.resume().exit_code == 0);
  CHECK(run.output() == run.undisturbed());
}

TEST_CASE("a run goes on undisturbed where what it reads is as it was") {
  const Words packed = {"--pack-weights", "on"}, int8 = {"--quantize", "int8"};
  for (const Words& flags : {kInPlace, packed, int8}) {
    for (const std::string what : {"touch", "replace", "remove", "overwrite", "truncate"}) {
      if (flags == kInPlace && (what == "overwrite" || what == "truncate")) continue;
      CAPTURE(flags.back());
      CAPTURE(what);
      ChangedRun run(flags);
      const Ended ended = run.change([&] {
        if (what == "touch") fs::last_write_time(run.weights, fs::file_time_type::clock::now());
        if (what == "remove") fs::remove(run.weights);
        if (what == "overwrite") run.overwrite();
        if (what == "truncate") fs::resize_file(run.weights, 5000);
        if (what != "replace") return;
        write_file(run.path("new"), "another");
        fs::rename(run.path("new"), run.weights);
      });
      CHECK(ended.exit_code == 0);
      CHECK(run.output() == run.undisturbed());
    }
  }
}

}  // namespace pagedinfer
