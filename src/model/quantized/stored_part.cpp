#include "model/quantized/stored_part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/refusal.h"

namespace pagedinfer {

const StoredTensor& find_part(const Checkpoint& files, const std::string& name,
                              std::span<const std::string_view> types,
                              std::initializer_list<Shape> shapes) {
  const StoredTensor& tensor = files.stored(name);
  if (std::ranges::find(types, tensor.type) == types.end()) {
    throw Error(fmt::format("{}: tensor '{}' has type {}, expected {}", tensor.file,
                            shortened(name), tensor.type, fmt::join(types, " or ")));
  }
  if (std::ranges::find(shapes, tensor.shape) == shapes.end()) {
    std::string expected;
    for (const Shape& shape : shapes) {
      expected += fmt::format("{}[{}]", expected.empty() ? "" : " or ", fmt::join(shape, ", "));
    }
    throw Error(fmt::format("{}: tensor '{}' has shape [{}], expected {}", tensor.file,
                            shortened(name),
                            shortened(fmt::format("{}", fmt::join(tensor.shape, ", "))), expected));
  }
  return tensor;
}

void check_groups(const StoredTensor& groups, const std::string& name, int64_t num_groups) {
  for (const int32_t group : numbers_of<int32_t>(groups)) {
    if (group >= 0 && group < num_groups) continue;
    throw Error(fmt::format("{}: tensor '{}' has group {}, expected 0 to {}", groups.file,
                            shortened(name), group, num_groups - 1));
  }
}

void check_multiple(const Checkpoint& files, const std::string& name, std::string_view things,
                    int64_t number, int64_t unit) {
  if (number % unit == 0) return;
  throw Error(fmt::format("{}: tensor '{}' is of a matrix of {} {}, expected a multiple of {}",
                          files.stored(name).file, shortened(name), number, things, unit));
}

void refuse_beside(const Checkpoint& files, const std::string& module, std::string_view codes,
                   std::string_view other) {
  const std::string name = fmt::format("{}.{}", module, other);
  if (!files.contains(name)) return;
  throw Error(fmt::format("{}: tensor '{}' is there, expected is {}.{} alone",
                          files.stored(name).file, shortened(name), shortened(module), codes));
}

}  // namespace pagedinfer
