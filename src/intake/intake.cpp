#include "intake/intake.h"

#include <cmath>
#include <utility>

#include "core/start_thread.h"

namespace pagedinfer {
namespace {

constexpr int kBatchLines = 32;
constexpr int64_t kBatchCost = 32 << 10;  // maximum of a batch of several lines
constexpr int64_t kTemplateCost = 64;     // tokens that a chat template adds to a line

// Bytes that may be added to the text of every line.
int64_t added_bytes(const ChatSettings& chat) {
  return std::ssize(chat.system.value_or("")) + (chat.rows ? std::ssize(chat.rows->text()) : 0);
}

}  // namespace

Intake::Intake(IntakeParts parts, const IntakeLimits& limits)
    : parts_(std::move(parts)),
      limits_(limits),
      batch_lines_(static_cast<int>(std::clamp<int64_t>(limits.max_items / 4, 1, kBatchLines))),
      window_({.max_items = limits.max_items,
               .max_tokens = limits.max_tokens,
               .num_workers = limits.num_workers,
               .batch_lines = batch_lines_},
              [this](LineBatch& batch) { keep_notes(batch); }),
      line_cost_(kTemplateCost + added_bytes(parts_.chat)) {
  if (parts_.tokenizer != nullptr) {
    limits_.prompt.max_prompt_bytes =
        max_prompt_bytes(*parts_.tokenizer, limits_.prompt.max_model_len);
  }
  try {
    for (int i = 0; i < limits_.num_workers; ++i) {
      RequestParser& parser =
          *parsers_.emplace_back(std::make_unique<RequestParser>(parts_.defaults, parts_.rules));
      threads_.push_back(start_thread("tokenizes", [this, &parser] { work(parser); }));
    }
    threads_.push_back(start_thread("reads the input", [this] { read_all(); }));
  } catch (...) {
    stop();
    throw;
  }
}

Intake::~Intake() {
  parts_.end_lines();
  stop();
}

void Intake::stop() {
  window_.stop();
  for (std::thread& thread : threads_) thread.join();
}

void Intake::read_all() {
  RunMark mark;
  std::unique_ptr<LineBatch> batch;
  std::exception_ptr failure;
  const auto attempt = [&](const auto& part) {
    try {
      part();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  attempt([&] { read_on(batch, mark); });
  attempt([&] { hand_over(batch, mark); });  // the lines before a failure were complete
  {
    const std::lock_guard lock(mutex_);
    mark_ = mark;
    read_failure_ = failure;
    read_ended_ = true;
  }
  window_.end();
}

void Intake::read_on(std::unique_ptr<LineBatch>& batch, RunMark& mark) {
  int64_t max_cost = 0;  // of the batch
  LineArrivals arrivals;
  for (;;) {
    std::optional<InputLine> line = parts_.lines.next_ready();
    if (!line) {
      hand_over(batch, mark);  // does not wait for lines that may come later
      line = parts_.lines.next();
    }
    if (!line) return;
    const double read = parts_.clock();
    mark.add(line->text);
    LineArrival arrival = arrivals.add(line->text, line->number);  // of lines not taken too
    if (!line->taken || parts_.is_done(line->index)) continue;
    const int64_t cost = std::ssize(line->text) + line_cost_;
    if (batch && (std::ssize(batch->lines) == batch_lines_ || batch->cost + cost > max_cost)) {
      hand_over(batch, mark);
    }
    if (!batch) {
      const std::optional<int64_t> room = window_.wait_for_room(cost);
      if (!room) return;
      max_cost = std::min(*room, kBatchCost);
      batch = std::make_unique<LineBatch>();
    }
    batch->add(*line, read, std::move(arrival), cost);
  }
}

// Passes the batch, if there is one, to the workers. `mark` covers it.
void Intake::hand_over(std::unique_ptr<LineBatch>& batch, const RunMark& mark) {
  if (batch) batch->pad();
  const std::optional<double> estimate = parts_.lines.estimate();
  {
    const std::lock_guard lock(mutex_);
    mark_ = mark;
    estimate_ = estimate;
    if (batch) num_read_ += std::ssize(batch->lines);
  }
  if (batch) window_.add(std::move(batch));
}

void Intake::work(RequestParser& parser) {
  while (LineBatch* const batch = window_.take()) {
    convert(*batch, parser);
    {
      const std::lock_guard lock(mutex_);
      tokenize_seconds_ += batch->seconds;
    }
    window_.give_back(*batch);
  }
}

void Intake::convert(LineBatch& batch, RequestParser& parser) const {
  const double begin = parts_.thread_clock();
  try {
    batch.items.reserve(batch.lines.size());
    for (const LineBatch::Line& line : batch.lines) {
      if (window_.stopped()) break;
      ParsedLine parsed = parser.parse(batch.input_line(line));
      parsed.request.head.turn = line.turn;
      parsed.request.head.arrived = line.read;
      parsed.request.head.arrival = line.arrival.time;
      check_line(parsed, line.arrival, parts_.chat, parts_.rules.strict, batch.unknown_keys);
      for (KeyHint& hint : parsed.hints) add_hint(batch.hints, {line.number, std::move(hint)});
      batch.items.push_back(
          prepare_line(std::move(parsed), parts_.tokenizer, parts_.chat, limits_.prompt));
      batch.cost_when_done += memory_in_tokens(batch.items.back());
    }
  } catch (...) {
    batch.failure = std::current_exception();
  }
  RequestParser::add(batch.unknown_keys, parser.take_unknown_keys());
  batch.text = std::string();
  batch.seconds = parts_.thread_clock() - begin;
}

// Keeps what a batch says of its lines, once all of them were pulled.
void Intake::keep_notes(LineBatch& batch) {
  const std::lock_guard lock(mutex_);
  RequestParser::add(unknown_keys_, batch.unknown_keys);
  for (LineHint& hint : batch.hints) add_hint(hints_, std::move(hint));
}

void Intake::rethrow_failure() const {
  if (const std::exception_ptr failure = this->failure()) std::rethrow_exception(failure);
}

std::exception_ptr Intake::failure() const {
  if (const std::exception_ptr failure = window_.failure()) return failure;
  const std::lock_guard lock(mutex_);
  return read_failure_;
}

RunMark Intake::mark() const {
  const std::lock_guard lock(mutex_);
  return mark_;
}

double Intake::tokenize_seconds() const {
  const std::lock_guard lock(mutex_);
  return tokenize_seconds_;
}

std::optional<LineCount> Intake::num_lines() const {
  const std::lock_guard lock(mutex_);
  if (read_ended_) return LineCount{.count = num_read_};
  if (!estimate_) return std::nullopt;
  const int64_t count = std::llround(*estimate_) - parts_.num_done;
  return LineCount{.count = std::max(count, num_read_), .is_estimate = true};
}

RequestParser::UnknownKeys Intake::unknown_keys() const {
  const std::lock_guard lock(mutex_);
  return unknown_keys_;
}

std::vector<LineHint> Intake::hints(size_t num_known) const {
  const std::lock_guard lock(mutex_);
  return {hints_.begin() + static_cast<std::ptrdiff_t>(num_known), hints_.end()};
}

}  // namespace pagedinfer
