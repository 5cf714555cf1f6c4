#pragma once

namespace pagedinfer {

// Which of the standard streams were open when the program started.
struct StandardFiles {
  bool input = true, output = true;
};

// Opens closed standard streams on /dev/null, so that no other file gets their descriptors. To be
// called before any file is opened.
StandardFiles open_standard_files();

}  // namespace pagedinfer
