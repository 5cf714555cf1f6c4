// --cpu-list: which processors a run uses, and what is refused.
#include <doctest/doctest.h>

#include <thread>

#include "core/cpu_list.h"
#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

// A run of lines with statistics.
struct Counted {
  std::string out;
  int64_t threads;
};
Counted counted(const std::string& lines, const Words& flags) {
  const TempDir dir;
  const Answers answers = answer(lines, Words{"--stats", dir / "stats.jsonl"} + flags);
  CHECK(answers.exit_code == 0);
  return {answers.out, summary_beside(dir / "stats.jsonl").integer("/config/threads")};
}

CpuList last_cpu() { return {{allowed_cpus().cpus.back()}}; }

}  // namespace

TEST_CASE("a run on listed processors gives the same completions, a thread on each") {
  const std::string lines = varied_prompts();
  const Counted all = counted(lines, {});
  const Counted one = counted(lines, {"--cpu-list", text_of(last_cpu())});
  CHECK(one.out == all.out);
  CHECK(one.threads == 1);
  CHECK(all.threads == std::ssize(allowed_cpus().cpus));
}

TEST_CASE("a run has as many threads as it was given processors") {
  int64_t threads = 0;
  std::thread([&] {
    confine_to(last_cpu());
    threads = counted(R"({"prompt": "Nora", "max_tokens": 2})", {}).threads;
  }).join();
  CHECK(threads == 1);
}

TEST_CASE("processors that are not there and threads without one are refused") {
  const auto message = [](const Words& flags) {
    const Answers refused = answer("", flags);
    CHECK(refused.exit_code == 1);
    return refused.err;
  };
  const auto tells = [&](const Words& flags, std::string_view what) {
    CHECK(message(flags).find(what) != std::string::npos);
  };
  tells({"--cpu-list", "1023"}, "there is no processor 1023; expected some of ");
  tells({"--cpu-list", "0,0"}, "numbers of processors, each once, as in 0,2-5");
  const std::string one = text_of(last_cpu());
  tells({"--cpu-list", one, "--threads", "2"}, "--cpu-list " + one + " has room for 1 thread");
}

}  // namespace pagedinfer
