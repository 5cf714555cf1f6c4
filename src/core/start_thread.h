#pragma once

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.h"

namespace pagedinfer {

// Starts a thread of type std::thread or std::jthread. Throws Error naming its purpose if the
// system allows no more threads.
template <class Thread = std::thread, class Work>
Thread start_thread(std::string_view purpose, Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw Error(fmt::format(
        "cannot start a thread that {}: {}; expected room for one more (ulimit -u and the limits "
        "of a container say how many there may be, --threads asks for fewer; ulimit -v limits "
        "their stacks too, a smaller --kv-memory leaves them more)",
        purpose, error.code().message()));
  }
}

}  // namespace pagedinfer
