// Files of llama.cpp's converter and quantizer against recorded logits
// (tools/goldens/make_gguf_models.py).
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <string>
#include <string_view>

#include "tests/support/golden_rows.h"
#include "tests/support/gzip.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

using simdjson::dom::element;

// Calls visit(name, record, path of the file) for every file that the list has.
template <class Visit>
void for_each_file(const std::string& list, const Visit& visit) {
  const std::string folder = source_dir() + "/tests/data/gguf/";
  simdjson::dom::parser parser;
  const simdjson::dom::object all = parser.load(folder + list);
  const TempDir dir;
  for (const auto& [key, record] : all) {
    const std::string name(key);
    INFO(name);
    write_file(dir / "m.gguf", gunzip(read_file(folder + name + ".gguf.gz")));
    visit(name, record, dir / "m.gguf");
  }
}

// The root of the mean square of differences, relative to that of `exact`.
double relative_distance(const std::vector<std::vector<float>>& rows, element exact) {
  double sum = 0, of_exact = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = floats(exact.at(i));
    sum += squared_distance(rows[i], row);
    of_exact += squared_distance(row, std::vector<float>(row.size()));
  }
  return std::sqrt(sum / of_exact);
}

std::vector<std::vector<float>> recorded(element rows) {
  std::vector<std::vector<float>> all;
  for (const element row : rows) all.push_back(floats(row));
  return all;
}

}  // namespace

TEST_CASE("a file of llama.cpp's converter has the logits of its checkpoint") {
  for_each_file(
      "converted.json", [](const std::string& name, element record, const std::string& path) {
        ModelRunner runner(path, DType::kF32);
        CHECK(runner.model.weight_notes.empty());
        use_ropes(runner.model.spec, 64, runner.weights);
        const float error = float32_error(runner, record);
        CHECK(error <= 1e-5f);
        MESSAGE(fmt::format("{}: largest difference {:.1e} of the largest logit", name, error));
      });
}

// Both programs round inputs to 8 bits. A step is 1/127 of the largest number of its group, and
// errors are even within a step: of normal numbers 0.6 % in groups of 32, 0.8 % in groups of 256.
// Here logits are some four products away.
TEST_CASE("a quantized file's logits are those of llama.cpp within the error of inputs in 8 bits") {
  for_each_file(
      "quantized.json", [](const std::string& name, element record, const std::string& path) {
        // Dequantized blocks have the numbers of llama.cpp.
        ModelRunner exact(path, DType::kF32);
        CHECK(float32_error(exact, record) <= 1e-5f);
        ModelRunner runner(path, DType::kF32, available_isas().back(), 1, WeightSource::kFiles, {},
                           Quantization::kCodes);
        const auto rows = rows_of(runner, record);
        const double ours = relative_distance(rows, record["float32"]);
        const double theirs = relative_distance(recorded(record["llama.cpp"]), record["float32"]);
        const double between = relative_distance(rows, record["llama.cpp"]);
        CHECK(ours <= 0.02);
        CHECK(ours <= 2 * theirs);
        // Super-blocks have the same groups of inputs in both, other types have groups of 32 there.
        const bool is_super_block = name.ends_with("_K") || name == "IQ4_XS";
        CHECK(between <= (is_super_block ? 1e-5 : 0.02));
        // Weights in int8, a scale for each output, are as far from the blocks as inputs are.
        ModelRunner int8(path, DType::kF32, available_isas().back(), 1, WeightSource::kFiles, {},
                         Quantization::kInt8);
        CHECK(relative_distance(rows_of(int8, record), record["float32"]) <= 0.03);
        MESSAGE(fmt::format("{}: {:.1e} from exact logits, llama.cpp {:.1e}, {:.1e} from it", name,
                            ours, theirs, between));
      });
}

TEST_CASE("a quantized file's logits have the same bits in chunks and on any instruction set") {
  for_each_file("quantized.json", [](const std::string&, element record, const std::string& path) {
    std::vector<std::vector<float>> whole;
    for (const CpuIsa isa : available_isas()) {
      CAPTURE(static_cast<int>(isa));
      ModelRunner runner(path, DType::kBF16, isa, 2, WeightSource::kFiles, {},
                         Quantization::kCodes);
      if (whole.empty()) whole = rows_of(runner, record);
      for (const std::vector<int>& parts : {std::vector<int>{24}, {1}, {7, 1, 1}}) {
        CHECK(rows_of(runner, record, parts) == whole);
      }
    }
  });
}

}  // namespace pagedinfer
