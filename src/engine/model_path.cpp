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

std::string program_path() { return fs::read_symlink("/proc/self/exe").string(); }

}  // namespace pagedinfer
