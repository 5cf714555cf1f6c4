#include "load/model_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/refusal.h"
#include "io/file_names.h"
#include "io/gguf_file.h"
#include "io/model_folder.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kFolder = "models--", kBetween = "--";

// The variable's value; "" if it is not set.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_hub_name(std::string_view name) {
  const size_t slash = name.find('/');
  return slash != name.npos && slash == name.rfind('/') && slash > 0 && slash + 1 < name.size() &&
         name.find_first_of(".~") > slash;
}

std::string hub_cache_folder() {
  if (std::string folder = variable("HF_HUB_CACHE"); !folder.empty()) return folder;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/huggingface/hub";
  }
  std::string home = variable("HOME");
  if (home.empty()) home = home_folder();
  return home + "/.cache/huggingface/hub";
}

std::string folder_in_cache(const std::string& cache, std::string_view name) {
  const size_t slash = name.find('/');
  return fmt::format("{}/{}{}{}{}", cache, kFolder, name.substr(0, slash), kBetween,
                     name.substr(slash + 1));
}

std::string hub_name_of(std::string_view folder) {
  if (!folder.starts_with(kFolder)) return "";
  const std::string_view name = folder.substr(kFolder.size());
  const size_t end_of_org = name.find(kBetween);
  if (end_of_org == name.npos) return std::string(name);
  return fmt::format("{}/{}", name.substr(0, end_of_org),
                     name.substr(end_of_org + kBetween.size()));
}

std::string describe_cache(const std::string& cache) {
  constexpr int kMaxNames = 10;
  std::error_code ignored;
  const std::string shown = fmt::format("the hub's cache {}", shortened(cache));
  if (!std::filesystem::is_directory(cache, ignored)) return shown + ", which does not exist";
  std::string names;
  int num_names = 0;
  for (const std::string& folder : names_in_folder(cache)) {
    const std::string name = hub_name_of(folder);
    if (name.empty() || ++num_names > kMaxNames) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shortened(name));
  }
  if (names.empty()) return shown + ", which has no models";
  if (num_names > kMaxNames) names += fmt::format(" and {} more", num_names - kMaxNames);
  return fmt::format("{}, which has {}", shown, names);
}

namespace fs = std::filesystem;

namespace {

// Where a hub's model was looked for, and how to download it.
std::string way_to_get(const std::string& name, const std::string& hub_cache) {
  return fmt::format(
      "it is not in {}. Models are not downloaded: the hub's own client does it (hf download {})",
      describe_cache(hub_cache), shortened(name));
}

// The error for a path whose first folder exists. It may be mistyped, or be the name of a hub's
// model.
Error not_in_folder(const std::string& name, const std::string& parent,
                    const std::string& hub_cache) {
  const std::string found =
      fmt::format("--model {}: no such directory; {} holds nothing of that name", shortened(name),
                  shortened(parent));
  if (name.find("/models--") != name.npos) return Error(found);  // a folder of a hub cache
  return Error(
      fmt::format("{}. If a hub's model is meant: {}", found, way_to_get(name, hub_cache)));
}

Error no_folder(const std::string& name, const std::string& hub_cache,
                const std::error_code& error) {
  const std::string shown = shortened(name);
  if (error && error != std::errc::no_such_file_or_directory &&
      error != std::errc::not_a_directory) {
    return Error(fmt::format("--model {}: cannot open: {}", shown, error.message()));
  }
  if (name.ends_with(kGgufEnd)) return Error(fmt::format("--model {}: no such file", shown));
  if (is_hub_name(name)) {
    const std::string parent = name.substr(0, name.find('/'));
    std::error_code ignored;
    if (fs::is_directory(parent, ignored)) return not_in_folder(name, parent, hub_cache);
    return Error(
        fmt::format("--model {}: no such folder, and {}", shown, way_to_get(name, hub_cache)));
  }
  return Error(fmt::format("--model {}: no such folder", shown));
}

Error no_model_file(const std::string& name) {
  return Error(
      fmt::format("--model {}: is a file; expected the name of a GGUF file, which ends in {}, or "
                  "the folder with config.json and safetensors",
                  shortened(name), kGgufEnd));
}

// The GGUF file, or first shard, that a folder has; "" if it has none. Throws Error if it has
// several.
std::string gguf_in(const std::string& dir) {
  std::vector<std::string> found;
  for (const std::string& name : names_in_folder(dir)) {
    const std::string first = first_shard(name);
    if (!name.ends_with(kGgufEnd) || std::ranges::find(found, first) != found.end()) continue;
    found.push_back(first);
  }
  if (found.size() > 1) {
    throw Error(fmt::format("--model {}: has {} GGUF models, expected one of them: {}", dir,
                            found.size(), shortened(fmt::format("{}", fmt::join(found, ", ")))));
  }
  return found.empty() ? "" : fmt::format("{}/{}", dir, found.front());
}

// The folder, or its GGUF file if it has no other weights.
std::string weights_in(const std::string& dir) {
  for (const char* const name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (name_exists((fs::path(dir) / name).string())) return dir;
  }
  const std::string file = gguf_in(dir);
  return file.empty() ? dir : file;
}

// A folder without config.json.
std::string model_in(const std::string& dir) {
  if (const std::string snapshot = find_snapshot(dir); !snapshot.empty()) {
    return weights_in(snapshot);
  }
  if (const std::string file = gguf_in(dir); !file.empty()) return file;
  const std::string instead = other_model_files(dir);
  if (instead.empty()) return dir;  // opening its files will report what is missing
  throw Error(fmt::format("--model {}: has no config.json{}", dir, instead));
}

}  // namespace

std::string find_model(const std::string& name, const std::string& program_path,
                       const std::string& hub_cache) {
  if (name_exists((fs::path(name) / "config.json").string())) return weights_in(name);
  std::error_code error, ignored;
  const fs::file_status status = fs::status(name, error);
  const bool is_directory = fs::is_directory(status);
  std::string looked;
  if (name.find('/') == std::string::npos) {
    const fs::path bin = fs::path(program_path).parent_path();
    for (const char* folder : {"../datasets", "../../datasets", "../datasets/configs",
                               "../../datasets/configs", "../share/pagedinfer"}) {
      const fs::path candidate = (bin / folder / name).lexically_normal();
      if (fs::is_regular_file(candidate / "config.json", ignored)) return candidate.string();
      looked += fmt::format("\n  {}", shortened(candidate.string()));
    }
  }
  if (is_directory) return model_in(name);
  if (fs::exists(status)) {
    if (name.ends_with(kGgufEnd)) return name;
    throw no_model_file(name);
  }
  if (is_hub_name(name)) {
    const std::string cached = folder_in_cache(hub_cache, name);
    if (fs::is_directory(cached, ignored)) return model_in(cached);
  }
  if (looked.empty()) throw no_folder(name, hub_cache, error);
  throw Error(fmt::format("--model {}: neither a directory nor a bundled model; looked at{}",
                          shortened(name), looked));
}

std::string name_of_model(const std::string& dir) {
  std::error_code ignored;
  fs::path path = fs::canonical(dir, ignored);
  if (path.empty()) path = fs::path(dir).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // the path ended in a slash
  const std::string cached = hub_name_of(path.parent_path().parent_path().filename().string());
  if (path.parent_path().filename() == "snapshots" && !cached.empty()) return cached;
  std::string name = path.filename().string();
  if (name.ends_with(kGgufEnd)) name.resize(name.size() - kGgufEnd.size());
  return name.empty() ? "model" : name;
}

std::string program_path() {
  std::error_code ignored;  // without a path no bundled model is found, as find_model() reports
  return fs::read_symlink("/proc/self/exe", ignored).string();
}

}  // namespace pagedinfer
