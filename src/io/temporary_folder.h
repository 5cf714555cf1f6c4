#pragma once

#include <string>

namespace pagedinfer {

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

}  // namespace pagedinfer
