#pragma once

#include <string>

#include "io/file_names.h"
#include "io/open_file.h"
#include "output/output_file.h"

namespace pagedinfer {

// A file that is written under a name of OutputFile::fresh() and then gets its own. It is removed
// with the object unless it was kept, and by OutputFile::remove_dead() if the process dies before.
class AsideFile {
 public:
  // REQUIRES: `calls` outlives the object.
  AsideFile(const std::string& prefix, const FileCalls& calls)
      : calls_(calls),
        file_(OutputFile::fresh(prefix, calls)),
        path_(file_.name()),
        lock_(file_.keep_lock()) {}
  ~AsideFile() {
    if (!kept_) calls_.unlink(path_.c_str());
  }
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;

  OutputFile& file() { return file_; }
  void close() {
    file_.flush();
    file_.sync();
    file_.close();
  }
  // REQUIRES: close() was called.
  void rename(const std::string& path) {
    rename_file(calls_, path_, path);
    path_ = path;
  }
  void keep() { kept_ = true; }

 private:
  const FileCalls& calls_;
  OutputFile file_;
  std::string path_;
  const OpenFile lock_;  // also when file_ is closed: without it another process removes the file
  bool kept_ = false;
};

}  // namespace pagedinfer
