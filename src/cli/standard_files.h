#pragma once

namespace pagedinfer {

// Which of the standard streams the program was started with.
struct StandardFiles {
  bool input = true, output = true;
};

// Opens those that are closed on /dev/null, so that no file of ours gets their numbers and with
// them what others read and print. To be called before anything is opened.
StandardFiles open_standard_files();

}  // namespace pagedinfer
