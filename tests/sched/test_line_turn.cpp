#include <doctest/doctest.h>

#include <array>

#include "kv/paged_pool.h"
#include "sched/line_turn.h"

using namespace pagedinfer;

TEST_CASE("the next prompt of a line is queued only if its samples or beams may run") {
  for (const bool is_search : {false, true}) {
    for (const int size : {32, 33}) {
      CAPTURE(is_search);
      CAPTURE(size);
      PagedPool pool(256, 4);
      Scheduler scheduler(pool, {.max_running = 64, .max_model_len = 32});
      Request request;
      request.prompt = {1, 2};
      request.sampling.max_tokens = 2;
      if (is_search) {
        request.sampling.beams.width = size;
      } else {
        request.num_samples = request.num_returned = size;
      }
      const std::array<Request, 3> prompts = {request, request, request};
      LineTurn turn({&prompts[0], &prompts[1], &prompts[2]}, scheduler);
      const StepPlan plan = scheduler.plan([&](const Sequence& seq) { turn.on_admit(seq); });
      CHECK(plan.num_admitted == 64 / size);
      CHECK(scheduler.num_waiting() == 0);

      const std::vector<Sequence> ended = scheduler.abort(plan);
      REQUIRE(std::ssize(ended) == 64 / size);
      for (const Sequence& seq : ended) CHECK(!turn.on_end(seq));
      CHECK(scheduler.num_waiting() == 1);
    }
  }
}
