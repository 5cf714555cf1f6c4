// Devices, streams and events.
#include "runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "queue.h"

using emulated::answer;
using emulated::Call;
using emulated::device;

namespace emulated {

Settings settings_of_environment() {
  Settings settings;
  const char* const text = std::getenv("PAGEDINFER_EMULATED");
  std::istringstream words(text == nullptr ? "" : text);
  std::string name;
  for (int value = 0; std::getline(words >> std::ws, name, '=') && words >> value;) {
    if (name == "shared_kib") {
      settings.shared_memory = value << 10;
    } else if (name == "refuses_graphs") {
      settings.refuses_graphs = value != 0;
    } else if (name == "is_taken") {
      settings.is_taken = value != 0;
    } else if (name == "algorithms_refused") {
      settings.algorithms_refused = value;
    } else if (name == "lacks_attributes") {
      settings.lacks_attributes = value != 0;
    } else {
      std::fprintf(stderr, "PAGEDINFER_EMULATED: there is no %s\n", name.c_str());
      std::abort();
    }
  }
  return settings;
}

cudaError_t refuse_in_capture() {
  for (const auto& stream : device().streams) {
    if (stream->capture == nullptr || !stream->capture_is_global) continue;
    stream->capture_is_broken = true;
    return answer(cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

void spend(double milliseconds) {
  const Call call;
  device().spent_ms += milliseconds;
}
double spent_ms() { return device().spent_ms; }

namespace {

bool is_device(int number) { return number >= 0 && number < settings().num_devices; }

double now() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  if (settings().product_ms > 0) return device().spent_ms;
  return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_stream(cudaStream_t stream) {
  return std::ranges::any_of(device().streams, [&](const auto& s) { return s.get() == stream; });
}

// The error that a call which waits for a stream or an event returns, or cudaSuccess.
cudaError_t problem_of_waiting(cudaStream_t stream) {
  if (const cudaError_t error = enter(); error != cudaSuccess) return error;
  if (stream != nullptr && !is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
  return refuse_in_capture();
}

}  // namespace
}  // namespace emulated

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorDevicesUnavailable: return "cudaErrorDevicesUnavailable";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    default: return "another error of CUDA";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorDevicesUnavailable: return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return "an error that the emulation has no words for";
  }
}

// A lost device stays lost.
cudaError_t cudaGetLastError() {
  const Call call;
  const cudaError_t error = cudaPeekAtLastError();
  device().last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  const Call call;
  return device().calls_until_lost == 0 ? device().lost : device().last_error;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = emulated::settings().driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const Call call;
  *count = emulated::settings().num_devices;
  if (emulated::settings().driver_version < 13000) return answer(cudaErrorInsufficientDriver);
  return *count == 0 ? answer(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  const Call call;
  return emulated::is_device(number) ? emulated::enter() : answer(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  const Call call;
  if (!emulated::is_device(number)) return answer(cudaErrorInvalidDevice);
  *properties = {.name = "emulated GPU",
                 .totalGlobalMem = static_cast<size_t>(emulated::settings().memory),
                 .sharedMemPerBlock = 48 << 10,
                 .sharedMemPerBlockOptin = static_cast<size_t>(emulated::settings().shared_memory),
                 .major = 9,
                 .minor = 0,
                 .multiProcessorCount = 2,
                 .l2CacheSize = 50 << 20};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int number) {
  cudaDeviceProp properties = {};
  const cudaError_t error = cudaGetDeviceProperties(&properties, number);
  *value = name == cudaDevAttrMultiProcessorCount
               ? properties.multiProcessorCount
               : static_cast<int>(properties.sharedMemPerBlockOptin);
  return error;
}
cudaError_t cudaDeviceSynchronize() {
  const Call call;
  if (const cudaError_t error = emulated::problem_of_waiting(nullptr); error != cudaSuccess) {
    return error;
  }
  emulated::run_all();
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Call call;
  if (const cudaError_t error = emulated::enter(); error != cudaSuccess) return error;
  device().streams.push_back(std::make_unique<CUstream_st>());
  *stream = device().streams.back().get();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call;
  if (!emulated::is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
  emulated::run_until([&] { return stream->queue.empty(); });
  std::erase_if(device().streams, [&](const auto& s) { return s.get() == stream; });
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Call call;
  if (const cudaError_t error = emulated::problem_of_waiting(stream); error != cudaSuccess) {
    return error;
  }
  if (stream == nullptr) return cudaDeviceSynchronize();
  emulated::run_until([&] { return stream->queue.empty(); });
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Call call;
  if (const cudaError_t error = emulated::problem_of_waiting(stream); error != cudaSuccess) {
    return error;
  }
  emulated::drift();
  return stream == nullptr || stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Call call;
  if (const cudaError_t error = emulated::enter(); error != cudaSuccess) return error;
  *event = new CUevent_st;
  (*event)->state->is_timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call;
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Call call;
  event->in_capture = stream != nullptr && stream->capture != nullptr;
  if (event->in_capture) return emulated::enter();  // captured work is in order anyway
  const uint64_t number = event->state->recorded + 1;
  const cudaError_t error = emulated::enqueue(stream, emulated::ItemKind::kEvent, nullptr,
                                              [state = event->state, number] {
                                                state->completed = number;
                                                state->completed_at = emulated::now();
                                              });
  if (error == cudaSuccess) event->state->recorded = number;
  return error;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call;
  if (event->in_capture) return answer(cudaErrorStreamCaptureUnsupported);
  if (const cudaError_t error = emulated::problem_of_waiting(nullptr); error != cudaSuccess) {
    return error;
  }
  emulated::drift();
  const auto& state = event->state;
  const uint64_t number = state->recorded;
  emulated::run_until([&] { return state->completed >= number; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Call call;
  if (event->in_capture) return answer(cudaErrorStreamCaptureUnsupported);
  if (const cudaError_t error = emulated::problem_of_waiting(nullptr); error != cudaSuccess) {
    return error;
  }
  emulated::drift();
  return event->state->completed >= event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Call call;
  const emulated::EventState &a = *start->state, &b = *end->state;
  if (!a.is_timed || !b.is_timed || a.recorded == 0 || b.recorded == 0) {
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (a.completed < a.recorded || b.completed < b.recorded) return answer(cudaErrorNotReady);
  *milliseconds = static_cast<float>(b.completed_at - a.completed_at);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Call call;
  if (event->in_capture != (stream != nullptr && stream->capture != nullptr)) {
    if (!event->in_capture) stream->capture_is_broken = true;
    return answer(
        cudaErrorStreamCaptureUnsupported);  // captures of several streams are not supported
  }
  if (event->in_capture) return emulated::enter();
  const auto ready = [state = event->state, number = event->state->recorded] {
    return state->completed >= number;
  };
  return emulated::enqueue(stream, {emulated::ItemKind::kEvent, nullptr, [] {}, ready});
}
