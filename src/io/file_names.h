// The names of files: those that stand beside an output, and changing them.
#pragma once

#include <string>

#include "io/file_calls.h"

namespace pagedinfer {

// What a run that has not ended keeps beside its output, and one that has.
std::string part_of(const std::string& output);
std::string run_of(const std::string& output);

// Whether that is how standard output is asked for: "-", or as the system calls it. What stands
// behind it, be it a file, is not ours to lock, to shorten or to put other files beside.
bool is_standard_output(const std::string& path);
// Whether there is a file of that name, be it a link to nothing.
bool name_exists(const std::string& path);
bool is_link(const std::string& path);
// Whether both are the names of one file, be it there or not, or of standard output. Devices and
// pipes, which take what several writers give them, are no files.
bool same_file(const std::string& a, const std::string& b);
// Whether what is written there cannot be had again: standard output, or something other than a
// file has that name, as a device or a pipe.
bool is_stream(const std::string& path);
int64_t size_of(const std::string& path);  // 0 of a file that is not there

// A file that is not there is no error. Both throw Error.
void remove_file(const FileCalls& calls, const std::string& path);
void rename_file(const FileCalls& calls, const std::string& from, const std::string& to);

// Makes the names in the folder of `path` last. Where the file system cannot, they last as long
// as it wants.
void sync_folder_of(const std::string& path);

}  // namespace pagedinfer
