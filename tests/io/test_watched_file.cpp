// Other bytes of a mapped file are noticed, and another time alone is not.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "core/hash.h"
#include "io/watched_file.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

// Into the same file.
void overwrite(const std::string& path, const std::string& bytes, int64_t begin = 0) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(begin);
  file.write(bytes.data(), static_cast<long>(bytes.size()));
}

// As docs/output_files.md has it.
std::string identity_of(const std::string& bytes) {
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), std::min<size_t>(bytes.size(), 8));
  uint64_t hash = hash_bytes(0, bytes.substr(0, 8 + std::min<uint64_t>(header, 16 << 20)));
  for (size_t i = 0; i < bytes.size(); i += std::max<size_t>(64 << 10, bytes.size() / 16)) {
    hash = hash_bytes(hash, bytes.substr(i, 64 << 10));
  }
  hash = hash_bytes(hash, bytes.substr(bytes.size() - std::min<size_t>(bytes.size(), 64 << 10)));
  return fmt::format("{} bytes, {:016x}", bytes.size(), hash);
}

// So many bytes that differ, behind the length of a header.
std::string bytes_of_file(size_t size, uint64_t header) {
  std::string bytes(size, 0);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  std::memcpy(bytes.data(), &header, std::min<size_t>(size, 8));
  return bytes;
}

std::string change_of(WatchedFile& file) {
  try {
    file.check();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a file is told apart by its size, its header and samples") {
  const TempDir dir;
  for (const size_t size : {0, 3, 8, 100, 65536, 65537, 200'000, 1 << 20, 3'000'001}) {
    for (const uint64_t header : {uint64_t{0}, uint64_t{90'000}, ~uint64_t{0}}) {
      CAPTURE(size);
      CAPTURE(header);
      const std::string bytes = bytes_of_file(size, header);
      write_file(dir / "file", bytes);
      const MappedFile mapped(dir / "file");
      CHECK(WatchedFile(mapped).identity() == identity_of(bytes));
    }
  }
}

TEST_CASE("a file with other bytes is noticed, also when it has them at once after a look") {
  for (int round = 0; round < 20; ++round) {
    const TempDir dir;
    const std::string path = dir / "file", bytes = bytes_of_file(100'000, 50);
    write_file(path, bytes);
    const MappedFile mapped(path);
    WatchedFile file(mapped);
    overwrite(path, bytes);
    CHECK(change_of(file) == "");
    overwrite(path, "x", 70'000);
    std::string changed = bytes;
    changed[70'000] = 'x';
    CHECK(change_of(file) ==
          fmt::format("{}: another program has changed the file while it was in use: found {}, "
                      "expected {}; nothing that was computed from its new bytes is kept",
                      path, identity_of(changed), identity_of(bytes)));
    overwrite(path, bytes);
    CHECK(change_of(file) == "");
    fs::resize_file(path, 99'999);
    CHECK(change_of(file).find("found 99999 bytes") != std::string::npos);
    fs::resize_file(path, 0);
    CHECK(change_of(file).find("found 0 bytes") != std::string::npos);
  }
}

TEST_CASE("a file that is touched, renamed, replaced or removed has its bytes still") {
  const TempDir dir;
  const std::string path = dir / "file", bytes = bytes_of_file(100'000, 50);
  write_file(path, bytes);
  const MappedFile mapped(path);
  WatchedFile file(mapped);
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(5));
  CHECK(change_of(file) == "");
  fs::permissions(path, fs::perms::none);
  CHECK(change_of(file) == "");
  fs::rename(path, dir / "other");
  CHECK(change_of(file) == "");
  write_file(path, "another");
  fs::rename(path, dir / "other");
  CHECK(change_of(file) == "");
}

}  // namespace pagedinfer
