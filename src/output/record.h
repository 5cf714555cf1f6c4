#pragma once

#include <string>

#include "core/request.h"

namespace pagedinfer {

// What a record holds beside the completion.
struct RecordOptions {
  bool token_ids = false;       // the ids of the completion's tokens
  bool timing = false;          // times, which differ from run to run
  std::string model_name = {};  // for lines of the OpenAI form
};

// Appends the output record of one input line, in the form of that line: one line of JSON with
// its end. It depends on nothing but the arguments.
void append_record(std::string& out, const Completion& completion, const RecordOptions& options);

}  // namespace pagedinfer
