// Exceptions to an exit code.
#include <cstdio>
#include <new>

#include "cli/command_line.h"
#include "core/error.h"

int main(int argc, char** argv) {
  try {
    return pagedinfer::run_command_line(argc, argv);
  } catch (const pagedinfer::Error& error) {
    std::fprintf(stderr, "pagedinfer: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "pagedinfer: out of memory\n");
  }
  return 1;
}
