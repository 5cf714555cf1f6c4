// Names of files and folders: questions about them, and changes.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace pagedinfer {

// The system calls that change files. A test replaces them to make each of them fail.
struct FileCalls {
  std::function<ssize_t(int, const void*, size_t)> write = ::write;
  std::function<ssize_t(int, const void*, size_t, off_t)> pwrite = ::pwrite;
  std::function<int(int)> fdatasync = ::fdatasync;
  std::function<int(int)> fsync = ::fsync;  // of folders
  std::function<int(int, off_t)> ftruncate = ::ftruncate;
  std::function<int(int)> close = ::close;
  std::function<int(const char*, const char*)> rename = ::rename;
  std::function<int(const char*)> unlink = ::unlink;
};

// The state files beside an output: OUTPUT.part of an unfinished run, OUTPUT.run of a finished one.
std::string part_of(const std::string& output);
std::string run_of(const std::string& output);

// Whether a name asks for another form of a complete output than JSON lines: compressed (.gz,
// .zst), CSV (.csv), or both (.csv.gz, .csv.zst).
bool has_final_form(std::string_view output);
bool is_table_name(std::string_view output);
// The file of JSON lines on which a run or a merge for `output` works: OUTPUT.jsonl if that has a
// final form, else OUTPUT.
std::string records_of(const std::string& output);

// Whether `path` names standard output: "-", "/dev/stdout" and the like. Even if that is a file, we
// do not lock or truncate it and put no state files beside it.
bool is_standard_output(const std::string& path);
// Whether the directory entry exists; a dangling link does.
bool name_exists(const std::string& path);
bool is_link(const std::string& path);
// Whether both paths name the same regular file, which need not exist, or both name standard
// output. False for devices and pipes: several writers may use them.
bool same_file(const std::string& a, const std::string& b);
// Whether data written there cannot be read back: standard output, a device, a pipe. False if
// nothing has that name.
bool is_stream(const std::string& path);
int64_t size_of(const std::string& path);  // 0 if there is no such file

// Succeeds if there is no such file. Throws Error.
void remove_file(const FileCalls& calls, const std::string& path);
// Throws Error.
void rename_file(const FileCalls& calls, const std::string& from, const std::string& to);

// fsyncs the parent directory of `path`, so that renames in it are durable. Ignores errors: some
// file systems do not support it.
void sync_folder_of(const FileCalls& calls, const std::string& path);

// A new folder where the system keeps temporary files. The destructor removes it with its contents.
class TemporaryFolder {
 public:
  // Throws Error if the folder cannot be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // The path of a file in it.
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The home directory of the user who runs the program, from the system's list of users; "" if there
// is none.
std::string home_folder();

}  // namespace pagedinfer
