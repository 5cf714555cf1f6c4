// Exceptions to an exit code.
#include <cstdio>
#include <exception>
#include <new>

#include "cli/command_line.h"
#include "core/error.h"

int main(int argc, char** argv) {
  const pagedinfer::StandardFiles standard = pagedinfer::open_standard_files();
  try {
    return pagedinfer::run_command_line(argc, argv, standard);
  } catch (const pagedinfer::Error& error) {
    std::fprintf(stderr, "pagedinfer: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "pagedinfer: out of memory\n");
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "pagedinfer: the run ended unexpectedly: %s\n", exception.what());
  } catch (...) {
    std::fprintf(stderr, "pagedinfer: the run ended unexpectedly\n");
  }
  return 1;
}
