// Turns lines into requests on threads of its own, a bounded window ahead of the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "intake/intake_item.h"
#include "intake/line_batch.h"
#include "intake/reorder_window.h"
#include "output/run_mark.h"
#include "request/input_lines.h"
#include "request/request_parser.h"

namespace pagedinfer {

// The number of tokenizer threads of a run with `num_threads` compute threads.
inline int num_tokenizers(int num_threads) {
  constexpr int kMaxWorkers = 16;
  return std::min(num_threads, kMaxWorkers);
}

constexpr int kReadAhead = 256;  // lines of a run's window beyond the scheduler's own

struct IntakeLimits {
  PromptLimits prompt = {};
  // Bounds of the window, which holds the lines that were read and not yet pulled: their number and
  // their memory in tokens. A line that is not tokenized yet counts one token for each byte and a
  // few more; a tokenized line counts memory_in_tokens(). A single line may exceed max_tokens.
  int64_t max_items = 512;
  int64_t max_tokens = int64_t{4} << 20;
  int num_workers = 1;  // threads that parse and tokenize
};

struct LineCount {
  int64_t count = 0;
  bool is_estimate = false;
};

// The parts of an Intake, which must outlive it.
struct IntakeParts {
  InputLines& lines;
  const Tokenizer* tokenizer;  // null: prompts must be token ids
  const ChatSettings& chat;
  SamplingParams defaults = {};  // as RequestParser
  LineRules rules = {};
  std::function<double()> clock;         // seconds since the run began; called by any thread
  std::function<double()> thread_clock;  // CPU seconds of the calling thread
  // Ends `lines`, even while they wait for input. Called by the destructor.
  std::function<void()> end_lines = [] {};
  // Whether a line has a record of an earlier run. Such lines are read, but not parsed.
  std::function<bool(int64_t index)> is_done = [](int64_t) { return false; };
  int64_t num_done = 0;  // the number of these lines
};

// One thread reads lines, several workers parse and tokenize batches of them, and the items come
// out in the order of the lines, whatever the number of threads. Knows nothing of models and steps.
class Intake {
 public:
  // Starts the threads. Throws Error if that fails.
  Intake(IntakeParts parts, const IntakeLimits& limits);
  // Ends the lines and joins the threads.
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // The next line's item. If it is not ready, waits or, without `wait`, returns kLater. After
  // kEnded all threads are idle. REQUIRES: only one thread calls it.
  Pull pull(bool wait, IntakeItem& item) { return window_.pull(wait, item); }

  // After kEnded: throws the exception that has ended the input early, if any. All items before the
  // failure were pulled.
  void rethrow_failure() const;
  bool failed() const { return failure() != nullptr; }  // whether rethrow_failure() would throw
  // CPU seconds of parsing, rendering and tokenizing, summed over the threads.
  double tokenize_seconds() const;
  // The mark covers every line that was pulled, and lines that were read ahead.
  RunMark mark() const;
  // The number of lines that the run takes. Before the end of the input it is an estimate for
  // regular files and nullopt for others.
  std::optional<LineCount> num_lines() const;
  // RequestParser::unknown_keys() of the lines pulled.
  RequestParser::UnknownKeys unknown_keys() const;
  // The unknown keys that resemble a known one, each with its first line, in the order of the lines
  // pulled. Skips the first `num_known`.
  std::vector<LineHint> hints(size_t num_known = 0) const;

 private:
  void read_all();
  void read_on(std::unique_ptr<LineBatch>& batch, RunMark& mark);
  void hand_over(std::unique_ptr<LineBatch>& batch, const RunMark& mark);
  void work(RequestParser& parser);
  void convert(LineBatch& batch, RequestParser& parser) const;
  void keep_notes(LineBatch& batch);
  std::exception_ptr failure() const;
  void stop();

  const IntakeParts parts_;
  IntakeLimits limits_;
  const int batch_lines_;  // maximum lines of a batch
  ReorderWindow window_;
  const int64_t line_cost_;  // tokens that a line may have besides one for each byte
  std::vector<std::unique_ptr<RequestParser>> parsers_;  // of the workers

  mutable std::mutex mutex_;  // guards all below but the threads
  int64_t num_read_ = 0;
  std::optional<double> estimate_;  // as InputLines
  RunMark mark_;
  double tokenize_seconds_ = 0;
  RequestParser::UnknownKeys unknown_keys_;
  std::vector<LineHint> hints_;
  bool read_ended_ = false;
  std::exception_ptr read_failure_;
  std::vector<std::thread> threads_;
};

}  // namespace pagedinfer
