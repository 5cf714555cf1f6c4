#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/request.h"
#include "output/log_probs.h"

namespace pagedinfer {

// Optional fields of a record.
struct RecordOptions {
  bool token_ids = false;        // the ids of the completion's tokens
  bool timing = false;           // latencies, which differ from run to run
  std::string model_name = {};   // for lines of the OpenAI form
  TokenLabels token_label = {};  // for lines that ask for log probabilities
};

// Appends the output record of one input line, in that line's form: one line of JSON with its \n.
// Depends only on the arguments.
void append_record(std::string& out, const Completion& completion, const RecordOptions& options);

// The fields of an output record that resume and merge need.
struct StoredRecord {
  int64_t index = 0;
  bool failed = false;  // an error record
  // Of all its prompts and completions, those that best_of dropped included. nullopt for an error
  // and for a beam search, which follows more beams than it returns.
  std::optional<int64_t> num_tokens = {};
};

// Parses lines of an output.
class RecordParser {
 public:
  RecordParser();
  ~RecordParser();
  RecordParser(const RecordParser&) = delete;
  RecordParser& operator=(const RecordParser&) = delete;

  // nullopt if the line is not a record.
  std::optional<StoredRecord> parse(std::string_view line);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pagedinfer
