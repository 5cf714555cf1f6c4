#include "model/gguf/gguf_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "core/refusal.h"

namespace pagedinfer {
namespace {

constexpr int64_t kMaxInteger = std::numeric_limits<int64_t>::max();

}  // namespace

std::string GgufKeys::key(std::string_view name) const {
  return fmt::format("{}.{}", architecture_->name, name);
}

std::optional<int64_t> GgufKeys::find_integer(std::string_view name) const {
  if (metadata_.is_null(key(name))) metadata_.refuse(key(name), "no finite number", "a number");
  const auto found = metadata_.find(key(name));
  if (!found || found->type() == simdjson::dom::element_type::DOUBLE) return std::nullopt;
  const std::vector<int64_t> all = metadata_.one_or_more(key(name), 0, kMaxInteger);
  if (all.empty()) return std::nullopt;
  if (std::ranges::adjacent_find(all, std::not_equal_to()) != all.end()) {
    metadata_.refuse(key(name), counted(std::ssize(all), "number", "numbers that differ"),
                     "one for all layers");
  }
  return all.front();
}

int64_t GgufKeys::integer(std::string_view name) const {
  const auto found = find_integer(name);
  if (!found || *found == 0) {
    metadata_.refuse(key(name), found ? "0" : "", "a positive integer");
  }
  return *found;
}

std::optional<double> GgufKeys::find_number(std::string_view name) const {
  if (metadata_.is_null(key(name))) metadata_.refuse(key(name), "no finite number", "a number");
  return metadata_.find_number(key(name), -std::numeric_limits<double>::max(),
                               std::numeric_limits<double>::max());
}

std::optional<std::string> GgufKeys::find_string(std::string_view name) const {
  return metadata_.find_string(key(name));
}

std::vector<bool> GgufKeys::booleans(std::string_view name) const {
  std::vector<bool> all;
  const auto found = metadata_.find(key(name));
  simdjson::dom::array list;
  if (!found || found->get(list) != simdjson::SUCCESS) return all;
  for (const auto item : list) {
    bool on = false;
    if (item.get(on) != simdjson::SUCCESS) {
      metadata_.refuse(key(name), item, "a list of true and false");
    }
    all.push_back(on);
  }
  return all;
}

int64_t GgufKeys::head_dim() const {
  if (const auto given = find_integer("attention.key_length")) return *given;
  return integer("embedding_length") / heads();
}

}  // namespace pagedinfer
