#pragma once

#include <vector>

#include "sched/scheduler.h"

namespace pagedinfer {

// Submits the requests of a line, so that lines have their turns between them. The line stands in
// the scheduler's queue once, with the next of its requests. When that is admitted, the line goes
// behind those that wait then. It has at most SchedulerLimits::max_running sequences admitted, or
// one request. Prompts that are held back count for the window.
class LineTurn {
 public:
  // Submits the first request. REQUIRES: the line has a request; Scheduler::submit() takes each of
  // its requests; the scheduler outlives the line.
  LineTurn(std::vector<const Request*> requests, Scheduler& scheduler);
  LineTurn(const LineTurn&) = delete;
  LineTurn& operator=(const LineTurn&) = delete;

  // The scheduler admits `seq`, a sequence of one of the requests.
  void on_admit(const Sequence& seq);

  // `seq` has left the scheduler. Returns whether it was the line's last.
  [[nodiscard]] bool on_end(const Sequence& seq);

 private:
  void submit_next();

  const std::vector<const Request*> requests_;
  Scheduler& scheduler_;
  size_t num_submitted_ = 0;  // requests
  bool is_waiting_ = false;   // the latest of them, which was not admitted yet
  int num_admitted_ = 0;      // sequences that have not ended
  int num_left_ = 0;          // samples that have not ended
};

}  // namespace pagedinfer
