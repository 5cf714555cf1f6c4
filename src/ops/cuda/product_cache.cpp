#include "ops/cuda/product_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "core/hash.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kFirstLine = "pagedinfer: the fastest algorithms of products, 2";
using KeyWords = decltype(words_of(ProductKey()));
constexpr size_t kNumWords = KeyWords().size() + 1 + ProductAlgorithm().size();  // of a line

// A line is the key, the bucket and the algorithm: integers with a space between.
std::string line_of(const ProductKey& key, int64_t bucket, const ProductAlgorithm& algorithm) {
  return fmt::format("{} {} {}", fmt::join(words_of(key), " "), bucket, fmt::join(algorithm, " "));
}

// Empty: the line is no such line.
std::vector<uint64_t> words_in(const std::string& line) {
  std::vector<uint64_t> words;
  const char *at = line.data(), *const end = at + line.size();
  while (words.size() < kNumWords) {
    uint64_t word = 0;
    const auto [behind, error] = std::from_chars(at, end, word);
    if (error != std::errc()) return {};
    words.push_back(word);
    at = behind;
    if (at == end) break;
    if (*at++ != ' ') return {};
  }
  return at == end && words.size() == kNumWords ? words : std::vector<uint64_t>();
}

// The last line has a hash of the others: cuBLAS gets only words that it has given.
std::string last_line(std::string_view others) {
  return fmt::format("hash {:016x}", hash_bytes(0, others));
}

}  // namespace

ProductCache::ProductCache(const std::string& folder, std::string identity)
    : folder_(folder), identity_(std::move(identity)) {
  if (folder.empty()) return;
  path_ = fmt::format("{}/products-{:016x}.txt", folder, hash_bytes(0, identity_));
  std::ifstream file(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!parse(text)) algorithms_.clear();
}

bool ProductCache::parse(const std::string& text) {
  const size_t last = text.rfind("hash ");
  if (last == std::string::npos || text.substr(last) != last_line(text.substr(0, last)) + '\n') {
    return false;
  }
  std::istringstream lines(text.substr(0, last));
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) return false;
  if (!std::getline(lines, line) || line != identity_) return false;
  while (std::getline(lines, line)) {
    const std::vector<uint64_t> words = words_in(line);
    if (words.empty()) return false;
    size_t next = 0;
    KeyWords of_key;
    for (int64_t& word : of_key) word = static_cast<int64_t>(words[next++]);
    const auto bucket = static_cast<int64_t>(words[next++]);
    ProductAlgorithm& algorithm = algorithms_[{key_of(of_key), bucket}];
    for (uint64_t& part : algorithm) part = words[next++];
  }
  return true;
}

std::optional<ProductAlgorithm> ProductCache::find(const ProductKey& key, int64_t bucket) const {
  const auto found = algorithms_.find({key, bucket});
  return found == algorithms_.end() ? std::nullopt : std::optional(found->second);
}

void ProductCache::add(const ProductKey& key, int64_t bucket, const ProductAlgorithm& algorithm) {
  algorithms_[{key, bucket}] = algorithm;
  has_changed_ = true;
}

void ProductCache::save() const {
  if (path_.empty() || !has_changed_) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  // Renamed when it is whole, so that no process reads half of it.
  const std::string unfinished = fmt::format("{}.{}", path_, getpid());
  std::string text = fmt::format("{}\n{}\n", kFirstLine, identity_);
  for (const auto& [place, algorithm] : algorithms_) {
    text += line_of(place.first, place.second, algorithm) + '\n';
  }
  {
    std::ofstream file(unfinished, std::ios::binary);
    file << text << last_line(text) << '\n';
    file.close();
    if (!file) {
      std::filesystem::remove(unfinished, error);
      return;
    }
  }
  std::filesystem::rename(unfinished, path_, error);
  if (error) std::filesystem::remove(unfinished, error);
}

}  // namespace pagedinfer
