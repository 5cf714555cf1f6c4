// Requests per second of everything but the device: a whole run, input file to output file, on a
// device that returns at once. Run it on one core: taskset -c 0 pagedinfer_host_bench.
//
//   pagedinfer_host_bench [requests [max_tokens [input|completion]]]
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "commands/run/job.h"
#include "core/error.h"
#include "fake_ops.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

void write_input(const fs::path& path, int count) {
  std::ofstream file(path);
  for (int i = 0; i < count; ++i) {
    file << fmt::format("{{\"id\":{},\"prompt\":\"Question: What is {} + {}?\\nAnswer:\"}}\n", i,
                        i % 97, i % 89);
  }
}

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

int measure(int count, int max_tokens, bool completion_order) {
  std::string folder = (fs::temp_directory_path() / "pagedinfer-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw Error(folder + ": cannot be made");
  write_input(folder + "/in.jsonl", count);
  Config config;
  config.input = folder + "/in.jsonl";
  if (completion_order) config.order = Config::Order::kCompletion;
  give("max_tokens", std::to_string(max_tokens), config);
  config.quiet = true;
  config.threads = 1;

  using Clock = std::chrono::steady_clock;
  Clock::time_point begin;
  double cpu = 0;
  const int code = run_job(config, [&](LoadedModel& model) {
    model.steps_in_front = std::make_unique<FakeSteps>(model.plan.ops->steps(), 5);
    model.arithmetic_in_front = fake_arithmetic(model.plan.ops->arithmetic());
    begin = Clock::now();
    cpu = cpu_seconds();
  });
  const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  cpu = cpu_seconds() - cpu;
  fs::remove_all(folder);
  fmt::print(
      "{} requests of {} tokens, order {}: {:.2f} s, {:.0f} requests/s; {:.0f} requests per "
      "second of a core\n",
      count, max_tokens, completion_order ? "completion" : "input", wall, count / wall,
      count / cpu);
  return code;
}

}  // namespace
}  // namespace pagedinfer

int main(int argc, char** argv) {
  try {
    return pagedinfer::measure(argc > 1 ? std::atoi(argv[1]) : 200'000,
                               argc > 2 ? std::atoi(argv[2]) : 1,
                               argc > 3 && std::string(argv[3]) == "completion");
  } catch (const pagedinfer::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
