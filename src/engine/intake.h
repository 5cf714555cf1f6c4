// Lines to requests, on threads of their own, a bounded window ahead of the engine.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/intake_item.h"
#include "engine/line_batch.h"
#include "output/run_mark.h"
#include "request/input_lines.h"
#include "request/request_parser.h"

namespace pagedinfer {

// Threads that tokenize where so many compute.
inline int num_tokenizers(int num_threads) {
  constexpr int kMaxWorkers = 16;
  return std::min(num_threads, kMaxWorkers);
}

struct IntakeLimits {
  PromptLimits prompt = {};
  // The window: lines that were read and not yet pulled, and their tokens, of which a line that
  // is not tokenized yet counts as one per byte and a few more. A single line may have more.
  int max_items = 512;
  int64_t max_tokens = int64_t{4} << 20;
  int num_workers = 1;  // at most so many threads parse and tokenize
};

struct LineCount {
  int64_t count = 0;
  bool is_estimate = false;
};

// What an Intake works with; all of it outlives the intake.
struct IntakeParts {
  InputLines& lines;
  const Tokenizer* tokenizer;  // null: prompts must be token ids
  const ChatSettings& chat;
  SamplingParams defaults = {};  // as RequestParser
  std::string prompt_field = "prompt";
  bool strict = false;
  std::function<double()> clock;         // seconds since the run began; any thread may ask
  std::function<double()> thread_clock;  // seconds that the thread that asks has computed
  // Ends `lines`, even while they wait for input.
  std::function<void()> end_lines = [] {};
  // Lines that it knows, like those that the run does not take, are read and nothing more.
  std::function<bool(int64_t index)> is_done = [](int64_t) { return false; };
  int64_t num_done = 0;  // how many lines that is
};

// One thread reads, several parse and tokenize batches of lines, and the items come out in the
// order of the lines: what comes out does not depend on the number of threads. One of them works
// while the window is half full, and more the emptier it is. Knows nothing of what is computed.
class Intake {
 public:
  enum class Pull : uint8_t { kItem, kLater, kEnded };

  // Reads to the end. Throws Error when a thread cannot be started.
  Intake(IntakeParts parts, const IntakeLimits& limits);
  // Ends the lines and joins the threads.
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // The next line's item. With nothing ready: waits for it, or says kLater. After kEnded no line
  // is worked on. One thread pulls.
  Pull pull(bool wait, IntakeItem& item);

  // After kEnded: throws what ended it early, if something did. Every item before was pulled.
  void rethrow_failure() const;
  bool failed() const;  // whether it would
  // What parsing, rendering and tokenizing has cost: seconds of processor time, summed over the
  // threads.
  double tokenize_seconds() const;
  // Covers every line that was pulled, and lines read ahead.
  RunMark mark() const;
  // How many lines there are to answer: of a regular file from its first lines on an estimate, of
  // other inputs nothing until they have ended.
  std::optional<LineCount> num_lines() const;
  // As RequestParser, of the lines pulled.
  RequestParser::UnknownKeys unknown_keys() const;
  // Each unknown key that resembles a known one, with the first line that has it, in the order of
  // the lines pulled; without the first `num_known`.
  std::vector<LineHint> hints(size_t num_known = 0) const;

 private:
  void read_all();
  void read_on(std::unique_ptr<LineBatch>& batch, RunMark& mark);
  std::optional<int64_t> wait_for_room(int64_t cost);
  void hand_over(std::unique_ptr<LineBatch>& batch, const RunMark& mark);
  void work(RequestParser& parser);
  void convert(LineBatch& batch, RequestParser& parser) const;
  void stop();

  // REQUIRES of all these: mutex_ is held.
  bool may_work() const;
  bool has_room(int64_t cost) const;
  bool has_item() const;
  bool has_ended() const;
  void drop_spent();
  void wake();

  const IntakeParts parts_;
  IntakeLimits limits_;
  const int batch_lines_;    // the most in a batch
  const int64_t line_cost_;  // tokens that a line may have beyond its bytes
  std::vector<std::unique_ptr<RequestParser>> parsers_;  // of the workers

  std::atomic<bool> stopped_ = false;  // changes under mutex_
  mutable std::mutex mutex_;
  std::condition_variable ready_, room_, work_;  // for who pulls, reads, works
  // Guarded by mutex_, as all below. In the input's order; the first num_taken_ are worked on or
  // done.
  std::deque<std::unique_ptr<LineBatch>> batches_;
  size_t num_taken_ = 0;
  int num_active_ = 0;           // workers that have a batch
  int64_t num_ready_ = 0;        // items that nobody has pulled
  int64_t num_ahead_ = 0;        // lines handed over and not pulled
  int64_t tokens_ahead_ = 0;     // of these lines, as IntakeLimits counts
  std::optional<int64_t> wish_;  // of the reader, while it waits for that much room
  int64_t num_read_ = 0;
  std::optional<double> estimate_;  // as InputLines
  RunMark mark_;
  double tokenize_seconds_ = 0;
  RequestParser::UnknownKeys unknown_keys_;
  std::vector<LineHint> hints_;
  bool read_ended_ = false;
  std::exception_ptr failure_, read_failure_;  // of the line that is next, of the reader
  std::vector<std::thread> threads_;           // not guarded
};

}  // namespace pagedinfer
