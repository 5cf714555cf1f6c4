// Which pages of a mapped checkpoint a model with experts touches.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "io/open_file.h"
#include "model/weights.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

// The pages of this memory that the process has touched.
int num_touched(std::span<const std::byte> memory) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t first = begin / page;
  std::vector<uint64_t> entries((begin + memory.size() - 1) / page - first + 1);
  const OpenFile map("/proc/self/pagemap");
  const size_t size = entries.size() * sizeof(uint64_t);
  REQUIRE(::pread(map.fd, entries.data(), size, static_cast<off_t>(first * sizeof(uint64_t))) ==
          static_cast<ssize_t>(size));
  return static_cast<int>(
      std::ranges::count_if(entries, [](uint64_t entry) { return entry >> 63 == 1; }));
}

// All logits are 0, so every row has the experts of the lowest indices.
void write_zeros(const OpenedModel& model, const std::string& tensor) {
  const StoredTensor& stored = model.checkpoint.stored(tensor);
  std::fstream file(stored.file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(stored.bytes.data() - model.checkpoint.files().front().bytes().data());
  file << std::string(stored.bytes.size(), '\0');
}

}  // namespace

TEST_CASE("experts that no row has chosen are not read, nor is their part of the file") {
  const TinyModel files(
      {.hidden = 64,
       .layers = 1,
       .dtype = DType::kBF16,
       .family = tiny_family("Qwen3MoeForCausalLM", R"("num_experts": 9, "num_experts_per_tok": 2,
                             "moe_intermediate_size": 4096, "norm_topk_prob": true)")});
  {
    const OpenedModel model = open_model(files.dir());
    write_zeros(model, model.names.layers[0].router);
  }
  ModelRunner runner(files.dir(), DType::kBF16, available_isas().back(), 2);
  runner.start(8);
  (void)runner.run({1, 5, 2, 40, 8}, {4});
  runner.ops->memory().make_present();  // waits for what is made present beside the step

  const Checkpoint& checkpoint = runner.model.checkpoint;
  const std::vector<ExpertNames>& names = runner.model.names.layers[0].experts;
  const auto bytes = [&](size_t expert) {
    const auto first = checkpoint.stored(names[expert].gate).bytes;
    const auto last = checkpoint.stored(names[expert].down).bytes;
    REQUIRE(first.data() < last.data());  // the expert's matrices lie together
    return std::span(first.data(), last.data() + last.size());
  };
  for (const size_t chosen : {0, 1}) CHECK(num_touched(bytes(chosen)) >= 3 * 4096 * 64 * 2 / 4096);
  // The system makes up to 2 MiB around a touched page present.
  for (const size_t other : {4, 5, 6}) CHECK(num_touched(bytes(other)) == 0);
}
