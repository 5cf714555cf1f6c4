// Speed of the intake, which turns lines into tokenized requests: MB/s of wall time, and MB per
// second of CPU time of its workers.
//
//   pagedinfer_intake_bench MODEL_DIR LINES.jsonl [WORKERS...]
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "bench_support.h"
#include "core/error.h"
#include "intake/intake.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {
namespace {

void measure(const Tokenizer& tokenizer, const std::string& path, int num_workers) {
  const ChatSettings chat;
  InputLines lines(path, {});
  const double begin = now(Clock::kWall);
  Intake intake(
      {.lines = lines,
       .tokenizer = &tokenizer,
       .chat = chat,
       .clock = [] { return now(Clock::kWall); },
       .thread_clock = [] { return now(Clock::kThread); }},
      {.prompt = {.vocab = 1 << 30, .max_model_len = 1 << 30}, .num_workers = num_workers});
  IntakeItem item;
  int64_t num_tokens = 0;
  while (intake.pull(true, item) == Pull::kItem) {
    if (const PreparedLine* const prepared = std::get_if<PreparedLine>(&item)) {
      for (const Request& request : prepared->prompts) num_tokens += std::ssize(request.prompt);
    }
  }
  intake.rethrow_failure();
  const double wall = now(Clock::kWall) - begin, work = intake.tokenize_seconds();
  const double megabytes = 1e-6 * static_cast<double>(std::filesystem::file_size(path));
  fmt::print(
      "{} workers: {:.1f} MB, {} tokens in {:.2f} s: {:.1f} MB/s; {:.1f} MB per second of a core\n",
      num_workers, megabytes, num_tokens, wall, megabytes / wall, megabytes / work);
}

}  // namespace
}  // namespace pagedinfer

int main(int argc, char** argv) {
  using namespace pagedinfer;
  if (argc < 3) return 1;
  try {
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(argv[1]);
    if (tokenizer == nullptr) throw Error(fmt::format("{}: has no tokenizer", argv[1]));
    std::vector<int> counts = {1, 2};
    if (argc > 3) counts.clear();
    for (int i = 3; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
    for (const int count : counts) measure(*tokenizer, argv[2], count);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
