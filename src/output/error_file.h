#pragma once

#include <string>

namespace pagedinfer {

// Throws Error if no file could be made at `errors` now. Leaves nothing behind.
void check_error_file(const std::string& errors);

// Writes the error records of a complete output to `errors`, in its order and in the form of an
// error file of OpenAI's batches: id, custom_id (the line's id), index, line, response null, and
// error. Replaces `errors` as a whole, also if there are no error records. Throws Error. REQUIRES:
// `output` is a regular file.
void write_error_file(const std::string& output, const std::string& errors);

}  // namespace pagedinfer
