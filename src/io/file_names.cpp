#include "io/file_names.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "io/open_file.h"
#include "io/packing.h"

namespace pagedinfer {

namespace fs = std::filesystem;

namespace {

// The absolute path of a file, which need not exist, with links resolved as far as the system can
// follow them.
fs::path canonical_path(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return path;
  const fs::path place = fs::weakly_canonical(absolute, error);
  return error ? absolute.lexically_normal() : place;
}

}  // namespace

std::string part_of(const std::string& output) { return output + ".part"; }
std::string run_of(const std::string& output) { return output + ".run"; }

bool is_table_name(std::string_view output) { return without_packing(output).ends_with(".csv"); }

bool has_final_form(std::string_view output) {
  return is_table_name(output) || packing_of_name(output) != nullptr;
}

std::string records_of(const std::string& output) {
  return has_final_form(output) ? output + ".jsonl" : output;
}

bool is_standard_output(const std::string& path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

bool name_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool is_link(const std::string& path) {
  std::error_code error;
  return fs::is_symlink(path, error);
}

bool same_file(const std::string& a, const std::string& b) {
  if (is_standard_output(a) || is_standard_output(b)) {
    return is_standard_output(a) && is_standard_output(b);
  }
  std::error_code error;
  if (fs::exists(a, error) && fs::exists(b, error)) {
    return fs::equivalent(a, b, error) && fs::is_regular_file(a, error);
  }
  return canonical_path(a) == canonical_path(b);
}

bool is_stream(const std::string& path) {
  if (is_standard_output(path)) return true;
  std::error_code error;
  const auto status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status);
}

int64_t size_of(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

void remove_file(const FileCalls& calls, const std::string& path) {
  if (calls.unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw Error(fmt::format("{}: cannot remove: {}", path, std::strerror(errno)));
  }
}

void rename_file(const FileCalls& calls, const std::string& from, const std::string& to) {
  if (calls.rename(from.c_str(), to.c_str()) != 0) {
    throw Error(fmt::format("{}: cannot rename to {}: {}", from, to, std::strerror(errno)));
  }
}

void sync_folder_of(const FileCalls& calls, const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  calls.fsync(fd);
  close(fd);
}

TemporaryFolder::TemporaryFolder() {
  std::error_code failure;
  const fs::path parent = fs::temp_directory_path(failure);
  path_ = (failure ? fs::path("/tmp") : parent) / "pagedinfer-bench-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) throw cannot_open(path_, errno);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string home_folder() {
  std::vector<char> text(16384);
  passwd entry = {}, *found = nullptr;
  if (getpwuid_r(getuid(), &entry, text.data(), text.size(), &found) != 0) return "";
  return found == nullptr || found->pw_dir == nullptr ? "" : found->pw_dir;
}

}  // namespace pagedinfer
