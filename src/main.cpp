// Exceptions to an exit code.
#include <cstdio>
#include <exception>
#include <new>

#include "cli/command_line.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "core/stack_room.h"

int main(int argc, char** argv) {
  const pagedinfer::StandardFiles standard = pagedinfer::open_standard_files();
  try {
    int code = 0;
    pagedinfer::with_stack_room([&] { code = pagedinfer::run_command_line(argc, argv, standard); });
    return code;
  } catch (const pagedinfer::Error& error) {
    std::fprintf(stderr, "pagedinfer: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "pagedinfer: out of memory\n");
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "pagedinfer: the run ended unexpectedly: %s\n", exception.what());
  } catch (...) {
    std::fprintf(stderr, "pagedinfer: the run ended unexpectedly\n");
  }
  return pagedinfer::exit_code::kFailed;
}
