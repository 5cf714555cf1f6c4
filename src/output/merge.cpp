#include "output/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "core/error.h"
#include "io/file_names.h"
#include "io/line_reader.h"
#include "output/aside_file.h"
#include "output/output_file.h"
#include "output/shard_file.h"
#include "output/shard_runs.h"

namespace pagedinfer {

namespace {

constexpr int64_t kMinRecordBytes = 12;  // {"index":0}\n
constexpr int64_t kCheckEvery = 4096;    // records

// The file and line of a record. REQUIRES: one of the shards holds it.
std::string find_record(const std::vector<std::string>& shards, int64_t index) {
  RecordParser parser;
  std::string found;
  for (const std::string& path : shards) {
    int64_t number = 0;
    scan_lines(path, 0, [&](std::string_view line, int64_t) {
      ++number;
      const auto record = parser.parse(line);
      if (record && record->index == index) found = fmt::format("{}: line {}", path, number);
      return found.empty();
    });
    if (!found.empty()) break;
  }
  return found;
}

// Reads every shard and checks that every index occurs once.
std::deque<ShardFile> read_shards(const std::vector<std::string>& shards, const ShardRuns& runs,
                                  const MergeOptions& options, MergeReport& report) {
  int64_t max_records = 0;  // that fit into the files; a larger index is not stored in `seen`
  for (const std::string& path : shards) max_records += size_of(path) / kMinRecordBytes;
  std::vector<bool> seen;
  std::deque<ShardFile> files;
  for (const std::string& path : shards) {
    const auto take = [&](const StoredRecord& record, int64_t line) {
      if (line % kCheckEvery == 0) options.check();
      const auto at = static_cast<size_t>(record.index);
      if (record.index >= runs.num_records().value_or(record.index + 1)) {
        throw Error(fmt::format("{}: line {}: index {}, and its run has read {} lines", path, line,
                                record.index, *runs.num_records()));
      }
      if (record.index >= max_records) {
        throw Error(
            fmt::format("{}: line {}: index {}, and the files have room for {} records: some "
                        "are missing, or this one is foreign",
                        path, line, record.index, max_records));
      }
      if (seen.size() <= at) seen.resize(at + 1);
      if (seen[at]) {
        throw Error(fmt::format("{}: line {}: index {} occurs already in {}", path, line,
                                record.index, find_record(shards, record.index)));
      }
      seen[at] = true;
      ++report.num_records;
      report.num_failed += record.failed;
    };
    files.emplace_back(path, take);
  }
  const auto expected = static_cast<size_t>(runs.num_records().value_or(0));
  for (size_t index = 0; index < std::max(seen.size(), expected); ++index) {
    if (index < seen.size() && seen[index]) continue;
    throw Error(
        fmt::format("index {} is missing: it is in none of the {} files", index, shards.size()));
  }
  return files;
}

// Writes the records of all files by index, and returns what it has written.
OutputPrefix write_records(std::deque<ShardFile>& files, const MergeOptions& options,
                           OutputFile& output) {
  OutputPrefix written;
  const auto later = [](const ShardFile* a, const ShardFile* b) { return a->index() > b->index(); };
  std::priority_queue<ShardFile*, std::vector<ShardFile*>, decltype(later)> queue(later);
  for (ShardFile& file : files) {
    if (file.next()) queue.push(&file);
  }
  for (int64_t count = 1; !queue.empty(); ++count) {
    if (count % kCheckEvery == 0) options.check();
    ShardFile* const file = queue.top();
    queue.pop();
    output.append(file->text());
    written.add(file->text());
    if (file->next()) queue.push(file);
  }
  return written;
}

void check_output(const std::vector<std::string>& shards, const std::string& output,
                  const MergeOptions& options) {
  for (const std::string& path : shards) {
    if (same_file(path, output)) {
      throw Error(output + ": is one of the shards; give the output another name");
    }
    // The merge removes or replaces the .run of an old output.
    if (same_file(path, run_of(output))) {
      throw Error(fmt::format("{}: {} is one of the shards; give the output another name", output,
                              run_of(output)));
    }
    if (same_file(run_of(path), output) || same_file(part_of(path), output)) {
      throw Error(fmt::format("{}: is a state file of the run of {}; give the output another name",
                              output, path));
    }
  }
  if (name_exists(part_of(output))) {
    throw Error(part_of(output) + ": the output is of a run that has not ended");
  }
  if (name_exists(output) && !options.overwrite) {
    throw Error(output + ": the file exists; --overwrite replaces it");
  }
}

}  // namespace

MergeReport merge_shards(const std::vector<std::string>& shards, const std::string& output,
                         const MergeOptions& options) {
  const bool makes_file = !is_stream(output);
  if (makes_file) check_output(shards, output, options);
  ShardRuns runs;
  for (const std::string& path : shards) runs.add(path);
  runs.check_complete(options.trust);
  MergeReport report;
  std::deque<ShardFile> files = read_shards(shards, runs, options, report);
  for (const ShardFile& file : files) runs.check_output(file.path(), file.contents());
  if (!makes_file) {
    OutputFile stream(output, OutputFile::Existing::kReplace, options.calls, options.open_pipe);
    write_records(files, options, stream);
    stream.close();
    return report;
  }
  const std::string prefix = output + ".merging";
  OutputFile::remove_dead(prefix, options.calls, [&](const std::string& path) {
    return std::ranges::any_of(shards,
                               [&](const std::string& shard) { return same_file(shard, path); });
  });
  AsideFile merged(prefix, options.calls);
  const std::optional<std::string> header =
      runs.merged_header(write_records(files, options, merged.file()));
  merged.close();
  std::optional<AsideFile> run;
  if (header) {
    run.emplace(prefix, options.calls);
    run->file().append(*header);
    run->close();
    run->rename(run_of(output));  // is removed again if the output does not get its name
  } else {
    remove_file(options.calls, run_of(output));  // it belongs to the replaced output
  }
  merged.rename(output);
  merged.keep();
  if (run) run->keep();
  sync_folder_of(options.calls, output);
  return report;
}

}  // namespace pagedinfer
