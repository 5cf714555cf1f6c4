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

// An empty directory of its own, removed with all it holds.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "pagedinfer-XXXXXX").string();
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

// A new file, not new bytes in the old one, which somebody may have mapped.
inline void write_file(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A path in the collection of files that are not the project's own. It may not be there: a
// test then says MESSAGE("SKIPPED: ...") and returns.
inline std::string shared_data(std::string_view path) {
  const char* given = std::getenv("PAGEDINFER_SHARED_DATA");
  const std::string root = given != nullptr ? given : source_dir() + "/../shared/data";
  return root + "/" + std::string(path);
}

// The model that the repository ships.
inline std::string bundled_model() { return source_dir() + "/datasets/story-llama"; }

}  // namespace pagedinfer
