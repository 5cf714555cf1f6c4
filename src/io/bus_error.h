#pragma once

#include <csignal>

namespace pagedinfer {

// A handler of SIGBUS, for SA_SIGINFO. If the address lies in a mapped file, another program has
// cut off that page, or a disk has failed: the handler names the file and ends the process with
// code 1. Otherwise the signal ends the process as without a handler.
void explain_bus_error(int signal, siginfo_t* info, void* context);

}  // namespace pagedinfer
