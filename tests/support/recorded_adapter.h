#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/support.h"
#include "tests/support/tiny_adapter.h"

namespace pagedinfer {

// Writes a record of tests/data/adapters: config.json of the model into `dir`, and the adapter into
// the folder `adapter`.
inline void write_recorded(simdjson::dom::element record, const std::string& dir,
                           const std::string& adapter) {
  write_file(dir + "/config.json", simdjson::minify(record["config"]));
  std::vector<AdapterTensor> tensors;
  for (const simdjson::dom::element tensor : record["tensors"]) {
    AdapterTensor& added = tensors.emplace_back();
    added.name = std::string(std::string_view(tensor["name"]));
    added.type = std::string(std::string_view(tensor["type"]));
    added.amplitude = static_cast<float>(double{tensor["amplitude"]});
    for (const int64_t size : tensor["shape"]) added.shape.push_back(size);
  }
  write_adapter(adapter, simdjson::minify(record["adapter_config"]), tensors);
}

}  // namespace pagedinfer
