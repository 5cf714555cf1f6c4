#include "io/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "io/open_file.h"

namespace pagedinfer {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::error_code failure;
  const fs::path parent = fs::temp_directory_path(failure);
  path_ = (failure ? fs::path("/tmp") : parent) / "pagedinfer-bench-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) throw cannot_open(path_, errno);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace pagedinfer
