#include "output/shard_runs.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "io/file_names.h"
#include "io/open_file.h"
#include "output/part_file.h"

namespace pagedinfer {

namespace {

// The header of an ended run; nullopt if there is no PATH.run.
std::optional<PartHeader> header_of(const std::string& shard) {
  const OpenFile readable(shard);
  if (name_exists(part_of(shard))) {
    throw Error(
        fmt::format("{}: this run has not ended; complete it with --resume", part_of(shard)));
  }
  if (!name_exists(run_of(shard))) return std::nullopt;
  return read_part_header(run_of(shard),
                          "merge the shards with the version that has computed them");
}

std::string take_shard(Fingerprint& fingerprint) {
  for (auto setting = fingerprint.settings.begin(); setting != fingerprint.settings.end();
       ++setting) {
    if (setting->first != "shard") continue;
    const std::string shard = setting->second;
    fingerprint.settings.erase(setting);
    return shard;
  }
  return "0/1";
}

std::string count_of(const std::string& shard) { return shard.substr(shard.find('/') + 1); }

void compare(const std::string& path, const Fingerprint& found, const std::string& first,
             const Fingerprint& expected) {
  const auto difference = first_difference(found, expected);
  if (!difference) return;
  throw Error(fmt::format("{}: {} = {}, and {} in {}; expected shards of one run", path,
                          shortened(difference->name), shortened(difference->a),
                          shortened(difference->b), first));
}

void compare(const std::string& path, const RunMark& found, const std::string& first,
             const RunMark& expected) {
  if (found == expected) return;
  const std::string what =
      found.lines == expected.lines
          ? fmt::format("other lines than that of {}", first)
          : fmt::format("{} lines, and that of {} {}", found.lines, first, expected.lines);
  throw Error(
      fmt::format("{}: its run has read {}; expected shards of one input, each resumed if "
                  "it has grown",
                  path, what));
}

}  // namespace

void ShardRuns::add(const std::string& path) {
  std::optional<PartHeader> header = header_of(path);
  std::error_code error;
  const std::string file = std::filesystem::canonical(path, error).string();
  if (!files_.insert({file, path}).second) throw Error(path + ": given twice");
  if (!header) {
    if (unknown_.empty()) unknown_ = path;
    return;
  }
  outputs_[path] = header->mark.output;
  const std::string shard = take_shard(header->fingerprint);
  if (const auto [earlier, is_new] = shards_.insert({shard, path}); !is_new) {
    throw Error(fmt::format("{}: of shard {}, as {} is; expected each shard once", path, shard,
                            earlier->second));
  }
  if (first_.empty()) {
    first_ = path;
    fingerprint_ = std::move(header->fingerprint);
    mark_ = header->mark.input;
  } else {
    compare(path, header->fingerprint, first_, fingerprint_);
    compare(path, header->mark.input, first_, mark_);
  }
}

void ShardRuns::check_output(const std::string& path, const OutputPrefix& found) const {
  const auto written = outputs_.find(path);
  if (written == outputs_.end() || found == written->second) return;
  throw Error(
      found.bytes == written->second.bytes
          ? fmt::format("{}: a record was changed; this is not what its run has written", path)
          : fmt::format("{}: has {} bytes, expected the {} that its run has written", path,
                        found.bytes, written->second.bytes));
}

void ShardRuns::check_complete(bool trust) const {
  if (!unknown_.empty()) {
    if (trust) return;
    throw Error(fmt::format(
        "{}: there is no {}, so it cannot be checked that the shard is complete and of the same "
        "run as the others; --trust accepts it unchecked",
        unknown_, run_of(unknown_)));
  }
  const std::string count = count_of(shards_.begin()->first);
  for (const auto& [shard, path] : shards_) {
    if (count_of(shard) == count) continue;
    throw Error(fmt::format("{}: of shard {}, and {} of {}; expected shards of one number", path,
                            shard, shards_.begin()->second, shards_.begin()->first));
  }
  for (int64_t i = 0; std::to_string(shards_.size()) != count; ++i) {
    const std::string shard = fmt::format("{}/{}", i, count);
    if (shards_.count(shard) > 0) continue;
    throw Error(fmt::format("shard {} is missing: expected the outputs of all {}", shard, count));
  }
}

std::optional<std::string> ShardRuns::merged_header(const OutputPrefix& merged) const {
  if (!unknown_.empty()) return std::nullopt;
  Fingerprint whole = fingerprint_;
  for (auto& [name, value] : whole.settings) {
    if (name == "order") value = "input";
  }
  return part_header(whole, {.input = mark_, .output = merged, .serial = 1});
}

}  // namespace pagedinfer
