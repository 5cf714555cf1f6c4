#include "io/model_store.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/check.h"
#include "io/mapped_file.h"
#include "io/model_folder.h"
#include "io/open_file.h"

namespace pagedinfer {

std::string ModelStore::path_of(std::string_view name) const {
  return gguf_ ? path_ : fmt::format("{}/{}", path_, name);
}

bool ModelStore::has(std::string_view name) const {
  if (gguf_) return texts_.contains(name);
  // As transformers, takes no folder for a file.
  const std::string path = path_of(name);
  return file_exists(path) && !std::filesystem::is_directory(path);
}

std::string ModelStore::text(std::string_view name) const {
  if (!gguf_) return std::string(MappedFile(path_of(name)).text());
  const auto found = texts_.find(name);
  CHECK(found != texts_.end());
  return found->second;
}

JsonFile ModelStore::json(std::string_view name, Problems* problems) const {
  if (gguf_) return {path_, text(name), problems};
  return JsonFile(path_of(name), problems);
}

std::vector<std::string> ModelStore::names_in(std::string_view folder) const {
  if (gguf_) return {};
  return names_in_folder(path_of(folder));
}

}  // namespace pagedinfer
