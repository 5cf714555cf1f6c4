#include <cstdio>

#include "core/config.h"
#include "core/error.h"
#include "engine/job.h"

int main() {
  try {
    return pagedinfer::run_job(pagedinfer::Config{});
  } catch (const pagedinfer::Error& error) {
    std::fprintf(stderr, "pagedinfer: %s\n", error.what());
    return 1;
  }
}
