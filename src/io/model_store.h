#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/gguf_file.h"

namespace pagedinfer {

// A model on disk: a folder, whose text files have names such as "config.json", or a GGUF file,
// whose metadata stand for such files.
class ModelStore {
 public:
  ModelStore(std::string folder) : path_(std::move(folder)) {}  // NOLINT: a path stands for it
  ModelStore(const char* folder) : path_(folder) {}             // NOLINT
  // `texts` are the files by their names.
  ModelStore(std::string path, std::shared_ptr<const GgufFile> gguf,
             std::map<std::string, std::string, std::less<>> texts)
      : path_(std::move(path)), gguf_(std::move(gguf)), texts_(std::move(texts)) {}

  // The folder or the file.
  const std::string& path() const { return path_; }
  // Null: a folder.
  const GgufFile* gguf() const { return gguf_.get(); }

  bool has(std::string_view name) const;
  // How messages call the file: "FOLDER/config.json", or the GGUF file.
  std::string path_of(std::string_view name) const;
  // Throws Error if it cannot be read.
  std::string text(std::string_view name) const;
  JsonFile json(std::string_view name, Problems* problems = nullptr) const;
  // The names of files in a folder of the model, ascending; empty if it has no such folder.
  std::vector<std::string> names_in(std::string_view folder) const;

 private:
  std::string path_;
  std::shared_ptr<const GgufFile> gguf_ = {};
  std::map<std::string, std::string, std::less<>> texts_ = {};
};

}  // namespace pagedinfer
