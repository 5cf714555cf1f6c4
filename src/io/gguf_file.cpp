#include "io/gguf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "io/gguf_header.h"
#include "io/open_file.h"

namespace pagedinfer {
namespace {

constexpr int64_t kMaxShards = 99'999;  // they have five digits
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;

// What stands before the numbers and behind the first one: "a/b-" and "-of-00003.gguf".
struct ShardName {
  std::string begin, end;
};

std::optional<ShardName> shard_name(const std::string& path) {
  const size_t end_size = kOf.size() + kDigits + kGgufEnd.size();
  if (!path.ends_with(kGgufEnd) || path.size() < end_size + kDigits + 1) return std::nullopt;
  const std::string end = path.substr(path.size() - end_size);
  const std::string digits = path.substr(path.size() - end_size - kDigits, kDigits);
  const auto are_digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!end.starts_with(kOf) || !are_digits(digits) ||
      !are_digits(std::string_view(end).substr(kOf.size(), kDigits))) {
    return std::nullopt;
  }
  return ShardName{path.substr(0, path.size() - end_size - kDigits), end};
}

std::string path_of_shard(const ShardName& name, int64_t number) {
  return fmt::format("{}{:0{}}{}", name.begin, number, kDigits, name.end);
}

// The place of a shard among the others, from 0, as its metadata have it.
void check_place(const JsonObject& metadata, int64_t place, int64_t count) {
  const int64_t found_place = metadata.integer("split.no", 0, kMaxShards);
  const int64_t found_count = metadata.integer("split.count", 0, kMaxShards);
  if (found_place == place && found_count == count) return;
  metadata.refuse("split.no", fmt::format("shard {} of {}", found_place + 1, found_count),
                  fmt::format("shard {} of {}", place + 1, count));
}

}  // namespace

std::string first_shard(const std::string& path) {
  const auto name = shard_name(path);
  return name ? path_of_shard(*name, 1) : path;
}

GgufFile::GgufFile(const std::string& path) {
  std::vector<MappedFile> files;
  files.emplace_back(path);
  GgufHeader first = parse_gguf(path, files.front().bytes());
  metadata_ = std::make_unique<JsonFile>(path, first.metadata);
  tensors_ = std::move(first.tensors);
  const JsonObject metadata = metadata_->root();
  const int64_t count = metadata.find_integer("split.count", 0, kMaxShards).value_or(0);
  if (count > 1) {
    const auto name = shard_name(path);
    if (!name) {
      metadata.refuse("split.count", fmt::format("{} shards", count),
                      "a file that is named NAME-00001-of-0000N.gguf beside the others");
    }
    if (const std::string one = path_of_shard(*name, 1); one != path) {
      throw Error(fmt::format("{}: is a later shard; expected the first one, {}", path, one));
    }
    check_place(metadata, 0, count);
    for (int64_t i = 1; i < count; ++i) {
      const std::string other = path_of_shard(*name, i + 1);
      if (!file_exists(other)) {
        throw Error(fmt::format("{}: is missing, {} is one of {} shards", other, path, count));
      }
      files.emplace_back(other);
      GgufHeader header = parse_gguf(other, files.back().bytes());
      check_place(JsonFile(other, header.metadata).root(), i, count);
      for (auto& [tensor, stored] : header.tensors) {
        if (tensors_.try_emplace(tensor, std::move(stored)).second) continue;
        throw Error(
            fmt::format("{}: tensor '{}' is in an earlier shard too", other, shortened(tensor)));
      }
    }
  }
  files_ = std::make_shared<const std::vector<MappedFile>>(std::move(files));
}

}  // namespace pagedinfer
