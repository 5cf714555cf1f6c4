#pragma once

#include <istream>
#include <string>

namespace pagedinfer {

// The processor that the program runs on. An unknown field is empty.
struct Processor {
  std::string name = {}, family = {}, model = {};
};

// Reads the text of /proc/cpuinfo.
Processor read_processor(std::istream& from);
Processor this_processor();

}  // namespace pagedinfer
