// Makes the final form of a complete output of its JSON lines; io/file_names.h names both files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/file_names.h"

namespace pagedinfer {

// Writes the records of a complete records_of(output) to `output`, which is replaced as a whole
// when the new file is safe on disk. Calls `check` now and then, which may throw to cancel. Throws
// Error; then `output` is unchanged.
void write_final_form(
    const std::string& output, const std::function<void()>& check = [] {},
    const FileCalls& calls = {});
// Removes records_of(output), after which only its .run is left.
void remove_records(const std::string& output, const FileCalls& calls = {});
// Writes records_of(output) anew from `output`. REQUIRES: `output` is not a table.
void unpack_records(const std::string& output, const std::function<void()>& check,
                    const FileCalls& calls = {});

struct FinalCount {
  int64_t records = 0, failed = 0;
};
// Counts the records in an output of CSV. Throws Error if it is not what write_final_form() writes.
FinalCount count_records(const std::string& output);

}  // namespace pagedinfer
