// Parses "ROWS COLUMNS CONFIG" up to the first end of a line, and what follows as a safetensors
// file. CONFIG is a config.json; every module of the file is opened as a quantized matrix of that
// shape.
#include "model/quantized/quantized_weights.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "fuzz.h"
#include "io/json_file.h"
#include "io/safetensors.h"

using namespace pagedinfer;

namespace {

constexpr int kMaxSize = 512;

// A folder in memory, for the file that a checkpoint is.
const std::string& folder() {
  static const std::string path = [] {
    std::string pattern = "/dev/shm/fuzz-XXXXXX";
    require(mkdtemp(pattern.data()) != nullptr, "there is a folder for the file");
    return pattern;
  }();
  return path;
}

// As a run does: whole pieces of rows. The numbers are the same however they are read.
void read(const RowSource& source) {
  const auto all = static_cast<size_t>(source.rows * source.cols);
  std::vector<float> whole(all), rows(all);
  source.read(0, source.rows, whole.data());
  for (int64_t i = 0; i < source.rows; ++i) source.read(i, 1, rows.data() + i * source.cols);
  require(std::memcmp(whole.data(), rows.data(), all * sizeof(float)) == 0,
          "rows have the numbers of the matrix");
}

void open_all(int64_t rows, int64_t cols, const QuantizedWeights& quantized,
              const Checkpoint& files) {
  std::set<std::string> modules;
  for (const std::string& name : files.names()) modules.insert(name.substr(0, name.rfind('.')));
  for (const std::string& module : modules) {
    const std::string name = module + ".weight";
    if (!quantized.has(files, name)) continue;
    try {
      read(quantized.open(files, name, {rows, cols}));
    } catch (const Error&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return 0;
  int rows = 0, cols = 0, config_at = 0;
  const std::string line(text.substr(0, end));
  if (std::sscanf(line.c_str(), "%d %d %n", &rows, &cols, &config_at) != 2) return 0;
  if (std::min(rows, cols) < 1 || std::max(rows, cols) > kMaxSize) return 0;
  const std::string path = folder() + "/model.safetensors";
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  require(file != nullptr, "the file can be written");
  std::fwrite(text.data() + end + 1, 1, size - end - 1, file);
  std::fclose(file);
  try {
    const JsonFile config("config.json", line.substr(static_cast<size_t>(config_at)));
    const QuantizedWeights quantized(config.root());
    open_all(rows, cols, quantized, Checkpoint(folder()));
  } catch (const Error&) {
  }
  return 0;
}
