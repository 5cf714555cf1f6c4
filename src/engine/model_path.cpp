#include "engine/model_path.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"

namespace pagedinfer {

namespace fs = std::filesystem;

std::string find_model(const std::string& name, const std::string& program_path) {
  std::error_code ignored;
  const bool is_directory = fs::is_directory(name, ignored);
  if (fs::exists(fs::path(name) / "config.json", ignored)) return name;
  if (name.find('/') != std::string::npos) {
    if (is_directory) return name;  // whoever opens it says what is missing
    throw Error(fmt::format("--model {}: no such directory", name));
  }
  std::string looked;
  const fs::path bin = fs::path(program_path).parent_path();
  for (const char* folder : {"../datasets", "../../datasets", "../datasets/configs",
                             "../../datasets/configs", "../share/pagedinfer"}) {
    const fs::path candidate = (bin / folder / name).lexically_normal();
    if (fs::is_regular_file(candidate / "config.json", ignored)) return candidate.string();
    looked += fmt::format("\n  {}", candidate.string());
  }
  if (is_directory) return name;
  throw Error(fmt::format("--model {}: neither a directory nor a bundled model; looked at{}", name,
                          looked));
}

std::string name_of_model(const std::string& dir) {
  std::error_code ignored;
  fs::path path = fs::canonical(dir, ignored);
  if (path.empty()) path = fs::path(dir).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended in a slash
  constexpr std::string_view kCached = "models--", kBetween = "--";
  const std::string folder = path.parent_path().parent_path().filename().string();
  if (path.parent_path().filename() != "snapshots" || !folder.starts_with(kCached)) {
    const std::string name = path.filename().string();
    return name.empty() ? "model" : name;
  }
  const std::string_view cached = std::string_view(folder).substr(kCached.size());
  const size_t end_of_org = cached.find(kBetween);
  if (end_of_org == std::string_view::npos) return std::string(cached);
  return fmt::format("{}/{}", cached.substr(0, end_of_org),
                     cached.substr(end_of_org + kBetween.size()));
}

std::string program_path() { return fs::read_symlink("/proc/self/exe").string(); }

}  // namespace pagedinfer
