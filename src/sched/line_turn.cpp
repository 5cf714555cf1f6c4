#include "sched/line_turn.h"

#include <utility>

namespace pagedinfer {
namespace {

// The sequences that a request has from its first token on.
int num_places(const Request& request, int num_samples) {
  return num_samples * request.sampling.beams.width;
}

// What a prompt that is held back takes, in tokens.
int64_t tokens_of(const Request& request) {
  return std::ssize(request.prompt) + int64_t{sizeof(Request) / sizeof(TokenId)};
}

}  // namespace

LineTurn::LineTurn(std::vector<const Request*> requests, Scheduler& scheduler)
    : requests_(std::move(requests)), scheduler_(scheduler) {
  for (const Request* const request : requests_) {
    num_left_ += request->num_samples;
    scheduler_.hold_back(tokens_of(*request));
  }
  submit_next();
}

// Submits the next request, if the line may have more sequences.
void LineTurn::submit_next() {
  if (is_waiting_ || num_submitted_ == requests_.size()) return;
  const Request& request = *requests_[num_submitted_];
  const int num_admitted = num_admitted_ + num_places(request, request.num_samples);
  if (num_admitted_ > 0 && num_admitted > scheduler_.limits().max_running) return;
  scheduler_.hold_back(-tokens_of(request));
  scheduler_.submit(request);
  is_waiting_ = true;
  ++num_submitted_;
}

void LineTurn::on_admit(const Sequence& seq) {
  if (!is_waiting_ || seq.request != requests_[num_submitted_ - 1]) return;
  is_waiting_ = false;
  num_admitted_ += num_places(*seq.request, seq.request->num_samples);
  submit_next();
}

bool LineTurn::on_end(const Sequence& seq) {
  num_left_ -= seq.num_samples();
  num_admitted_ -= num_places(*seq.request, seq.num_samples());
  if (num_left_ == 0) return true;
  submit_next();
  return false;
}

}  // namespace pagedinfer
