#include "load/hub_cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/shortened.h"
#include "io/file_names.h"
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

}  // namespace pagedinfer
