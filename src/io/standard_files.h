#pragma once

#include <string_view>

namespace pagedinfer {

// Which of the standard streams were open when the program started.
struct StandardFiles {
  bool input = true, output = true;

  // Throws Error that names the flag if its file is "-" and that stream was closed.
  void check_input(std::string_view flag, std::string_view path) const;
  void check_output(std::string_view flag, std::string_view path) const;
};

// Opens closed standard streams on /dev/null, so that no other file gets their descriptors. To be
// called before any file is opened.
StandardFiles open_standard_files();

}  // namespace pagedinfer
