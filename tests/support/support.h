// What several test files need: temporary directories, and data that may be absent.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/support/paths.h"

namespace pagedinfer {

// A new empty directory; the destructor removes it with its contents.
class TempDir {
 public:
  explicit TempDir(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string pattern = (parent / "pagedinfer-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// Replaces the file by a new one; a mapping of the old file keeps its bytes.
inline void write_file(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A path in the collection of other projects' files. It may be absent; a test then prints
// MESSAGE("SKIPPED: ...") and returns.
inline std::string shared_data(std::string_view path) {
  const char* given = std::getenv("PAGEDINFER_SHARED_DATA");
  const std::string root = given != nullptr ? given : source_dir() + "/../shared/data";
  return root + "/" + std::string(path);
}

// The model that the repository ships.
inline std::string bundled_model() { return source_dir() + "/datasets/story-llama"; }

}  // namespace pagedinfer
