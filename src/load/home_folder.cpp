#include "load/home_folder.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

namespace pagedinfer {

std::string home_folder() {
  std::vector<char> text(16384);
  passwd entry = {}, *found = nullptr;
  if (getpwuid_r(getuid(), &entry, text.data(), text.size(), &found) != 0) return "";
  return found == nullptr || found->pw_dir == nullptr ? "" : found->pw_dir;
}

}  // namespace pagedinfer
