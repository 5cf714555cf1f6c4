#pragma once

#include <cstdint>
#include <string>

#include "core/request.h"
#include "output/output_file.h"

namespace pagedinfer {

// The answers of a run, in temporary files, so that memory does not grow with the run. Answers are
// added in any order and read by their turn.
class AnswerFile {
 public:
  // Keeps the parts of a completion that a comparison needs: the head, the error, the prompts with
  // their log probabilities and hashes, and the tokens, draws and log probabilities of each choice.
  void add(const Completion& answer);

  // Flushes the files. Answers can be read only after it.
  void finish();
  int64_t size() const { return size_; }
  // REQUIRES: the answer of that turn was added.
  Completion read(int64_t turn) const;

 private:
  struct Place {
    int64_t offset = 0, bytes = 0;
  };

  OutputFile answers_ = OutputFile::temporary();
  OutputFile places_ = OutputFile::temporary();  // offset and size of each answer, by turn
  int64_t size_ = 0;
  std::string bytes_ = {};  // of the answer that is being added
};

}  // namespace pagedinfer
