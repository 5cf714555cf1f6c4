// Lines to requests, on a thread of its own, a bounded window ahead of the engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "core/request.h"
#include "engine/chat_prompt.h"
#include "io/input_lines.h"
#include "io/request_parser.h"
#include "io/run_mark.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// What becomes of one line: something to run, or an answer already (an error).
using IntakeItem = std::variant<Request, Completion>;

struct IntakeLimits {
  int vocab = 0;                                // token ids are below it
  int max_model_len = 0;                        // a prompt must be shorter
  int64_t max_prompt_bytes = int64_t{1} << 40;  // more are not even tokenized
  int max_items = 512;                          // the window
  int64_t max_tokens = int64_t{4} << 20;  // prompt tokens in the window, but for a single prompt
};

// Turns a parsed line into a request, or into the error that answers it. `tokenizer` may be
// null: then a prompt must be token ids.
IntakeItem make_request(ParsedLine line, const Tokenizer* tokenizer, const ChatSettings& chat,
                        const IntakeLimits& limits);

class Intake {
 public:
  enum class Pull : uint8_t { kItem, kLater, kEnded };

  // Reads `lines` to their end. `clock` gives seconds. Lines that the run does not take, or whose
  // index `is_done` knows, are read and nothing more.
  Intake(
      InputLines& lines, RequestParser& parser, const Tokenizer* tokenizer,
      const ChatSettings& chat, const IntakeLimits& limits, std::function<double()> clock,
      std::function<bool(int64_t index)> is_done = [](int64_t) { return false; });
  // Joins the thread. REQUIRES: the input has ended, or their stop_fd is readable.
  ~Intake();

  // The next line's item. With nothing ready: waits for it, or says kLater.
  Pull pull(bool wait, IntakeItem& item);

  // After kEnded: throws what ended the reading early (Error), if something did.
  void rethrow_failure() const;
  bool failed() const;  // whether it would
  double tokenize_seconds() const;
  // Covers every line that was pulled, and lines read ahead.
  RunMark mark() const;
  // How many lines there are to answer, once that is known.
  std::optional<int64_t> num_lines() const;

 private:
  void read_all();
  // False: stop reading.
  bool push(IntakeItem item, const RunMark& mark, double seconds);

  InputLines& lines_;
  RequestParser& parser_;
  const Tokenizer* tokenizer_;
  const ChatSettings& chat_;
  IntakeLimits limits_;
  std::function<double()> clock_;
  std::function<bool(int64_t)> is_done_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<IntakeItem> items_;  // guarded by mutex_, as all below
  int64_t num_tokens_ = 0;        // in the prompts of items_
  int64_t num_read_ = 0;
  RunMark mark_;
  double tokenize_seconds_ = 0;
  bool ended_ = false, stopped_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace pagedinfer
