// Two kinds of failure: Error (core/error.h) is the user's problem, CHECK is ours.
#pragma once

#include <cstdio>
#include <cstdlib>

// Aborts when an invariant of ours is broken. Never reachable from user input. For .cpp files
// and kernel headers: a test framework has a CHECK of its own.
#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (0)
