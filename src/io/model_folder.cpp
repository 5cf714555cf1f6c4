#include "io/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"

namespace pagedinfer {

namespace fs = std::filesystem;

namespace {

struct OtherFile {
  std::string_view begin, end;  // of its name
  std::string_view meaning;
};

// The first one found is reported.
constexpr OtherFile kOtherFiles[] = {
    {"adapter_config", ".json",
     "of a LoRA adapter: give this folder to --lora, and its base model to --model"},
    {"consolidated", ".safetensors",
     "weights of another layout: use the files as Hugging Face transformers has them"},
    {"pytorch_model", ".bin",
     "PyTorch's own format, which is not read: from_pretrained and save_pretrained of Hugging Face "
     "transformers make safetensors of it"},
    {"", ".bin", "not a format that is read: use safetensors"},
    {"", ".pt", "PyTorch's own format, which is not read: use safetensors"},
    {"", ".pth", "PyTorch's own format, which is not read: use safetensors"},
    {"models--", "", "a model's folder in a hub cache: give that folder"},
};

// Ranks how complete a model in a folder is. Dangling links do not count.
int wholeness(const fs::path& dir) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(dir / name, ignored); };
  if (!has("config.json")) return 0;
  return has("model.safetensors") || has("model.safetensors.index.json") ? 2 : 1;
}

}  // namespace

std::vector<std::string> names_in_folder(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string other_model_files(const std::string& dir) {
  const std::vector<std::string> names = names_in_folder(dir);
  for (const OtherFile& other : kOtherFiles) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return name.starts_with(other.begin) && name.ends_with(other.end);
    });
    if (found != names.end()) {
      return fmt::format("; it holds {}, which is {}", shortened(*found), other.meaning);
    }
  }
  return "";
}

std::string find_snapshot(const std::string& dir) {
  std::error_code ignored;
  const fs::path snapshots = fs::path(dir) / "snapshots";
  if (!fs::is_directory(snapshots, ignored)) return "";
  std::string revision;
  std::ifstream(fs::path(dir) / "refs" / "main") >> revision;
  if (!revision.empty() && revision.find('/') == revision.npos &&
      fs::is_directory(snapshots / revision, ignored)) {
    return (snapshots / revision).string();
  }
  std::string best;
  std::pair<int, fs::file_time_type> best_rank;
  for (const std::string& name : names_in_folder(snapshots.string())) {
    const fs::path snapshot = snapshots / name;
    if (!fs::is_directory(snapshot, ignored)) continue;
    const std::pair rank(wholeness(snapshot), fs::last_write_time(snapshot, ignored));
    if (!best.empty() && rank <= best_rank) continue;
    best = snapshot.string();
    best_rank = rank;
  }
  if (best.empty()) {
    throw Error(
        fmt::format("{}: is a hub cache folder without a snapshot; download the model again", dir));
  }
  return best;
}

}  // namespace pagedinfer
