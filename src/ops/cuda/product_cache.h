#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ops/cuda/product_library.h"

namespace pagedinfer {

// The fastest algorithms of earlier timings, in a file that may be deleted at any time. The file
// belongs to one identity, which names all that the times depend on. Several processes may use it
// at once; additions of one of them may be lost.
class ProductCache {
 public:
  // Reads the file of this identity in the folder. A file that is missing, of another identity or
  // damaged counts as empty. "" as the folder: there is no file.
  ProductCache(const std::string& folder, std::string identity);

  std::optional<ProductAlgorithm> find(const ProductKey& key, int64_t bucket) const;
  void add(const ProductKey& key, int64_t bucket, const ProductAlgorithm& algorithm);

  // Replaces the file if anything was added. A failure costs the next process its time only.
  void save() const;

  int64_t size() const { return std::ssize(algorithms_); }
  const std::string& path() const { return path_; }

 private:
  using Place = std::pair<ProductKey, int64_t>;

  bool parse(const std::string& text);

  const std::string folder_, identity_;
  std::string path_;
  std::map<Place, ProductAlgorithm> algorithms_ = {};
  bool has_changed_ = false;
};

}  // namespace pagedinfer
