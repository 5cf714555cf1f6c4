#pragma once

#include <cstdint>
#include <string>

#include "core/request.h"
#include "output/output_file.h"

namespace pagedinfer {

// What a run answered, in temporary files: memory does not grow with the run. Answers come in any
// order and are read by their turn.
class AnswerFile {
 public:
  // Of a completion, what the answers of two runs are compared by is kept: the head, the prompts,
  // the tokens, draws and log probabilities of each choice, those of the prompts with their hashes,
  // and the error.
  void add(const Completion& answer);

  // Hands everything to the system; then answers can be read.
  void finish();
  int64_t size() const { return size_; }
  // REQUIRES: the answer of that turn was added.
  Completion read(int64_t turn) const;

 private:
  struct Place {
    int64_t offset = 0, bytes = 0;
  };

  OutputFile answers_ = OutputFile::temporary();
  OutputFile places_ = OutputFile::temporary();  // of the answers, by turn
  int64_t size_ = 0;
  std::string bytes_ = {};  // of the answer in hand
};

}  // namespace pagedinfer
