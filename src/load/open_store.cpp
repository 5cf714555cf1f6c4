#include "load/open_store.h"

#include <memory>
#include <utility>

#include "model/gguf/gguf_config.h"
#include "text/files/gguf_tokenizer.h"

namespace pagedinfer {

ModelStore open_store(const std::string& path) {
  if (!path.ends_with(kGgufEnd)) return path;
  auto file = std::make_shared<const GgufFile>(path);
  auto texts = gguf_tokenizer_files(file->metadata());
  texts["config.json"] = gguf_config(*file);
  return {path, std::move(file), std::move(texts)};
}

}  // namespace pagedinfer
