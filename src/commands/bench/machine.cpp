#include "commands/bench/machine.h"

#include <fstream>
#include <string_view>

namespace pagedinfer {

Processor read_processor(std::istream& from) {
  Processor processor;
  for (std::string line; std::getline(from, line) && !line.empty();) {  // of the first core
    const size_t tab = line.find('\t'), colon = line.find(": ");
    if (tab == std::string::npos || colon == std::string::npos) continue;
    const std::string_view key = std::string_view(line).substr(0, tab);
    const std::string value = line.substr(colon + 2);
    if (key == "model name") processor.name = value;
    if (key == "cpu family") processor.family = value;
    if (key == "model") processor.model = value;
  }
  return processor;
}

Processor this_processor() {
  std::ifstream file("/proc/cpuinfo");
  return read_processor(file);
}

}  // namespace pagedinfer
