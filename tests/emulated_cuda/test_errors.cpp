// What the backend makes of calls that fail: whether the device counts as lost, and what is said.
#include <functional>
#include <string>

#include "core/error.h"
#include "ops/cuda/device_error.h"
#include "ops/cuda/graph_capture.h"
#include "tests/emulated_cuda/runtime.h"
#include "tests/support/cuda_support.h"

namespace pagedinfer {
namespace {

// What an action throws: a message, with "lost: " before it if the device counts as lost.
std::string thrown_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const DeviceLost& error) {
    return std::string("lost: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The same on a device whose calls return `answer`.
std::string thrown_if(cudaError_t answer, const std::function<void()>& action) {
  emulated::lose_device(0, answer);
  const std::string thrown = thrown_by(action);
  emulated::lose_device(0, cudaSuccess);
  return thrown;
}

}  // namespace

TEST_CASE("emulated: a GPU that others hold is not lost") {
  const auto start = [] { make_gpu(ModelSpec{}, {}); };
  CHECK(thrown_if(cudaErrorDevicesUnavailable, start) ==
        "emulated GPU is held by another program, or closed to all of them (CUDA-capable device(s) "
        "is/are busy or unavailable)");
  CHECK(thrown_if(cudaSuccess, start) == "");
  CHECK(thrown_if(cudaErrorIllegalAddress, start) ==
        "emulated GPU does not start: an illegal memory access was encountered");
  // An error that says nothing of the device: what the device says then decides.
  const auto fail = [] { check_cuda(cudaErrorUnknown, "a call"); };
  CHECK(thrown_if(cudaErrorDevicesUnavailable, fail).starts_with("the GPU refused: a call: "));
  CHECK(thrown_if(cudaErrorIllegalAddress, fail).starts_with("lost: the GPU was lost: a call: "));
}

TEST_CASE("emulated: a graph that cannot be instantiated is an error that leaves nothing behind") {
  const emulated::KeptSettings kept;
  const int64_t graphs = emulated::counts().graphs;
  const CudaStream stream = make_stream();
  const DeviceBytes memory = take_device(16, "for a test");
  GraphCapture capture(stream.get());
  const auto record = [&] {
    capture.begin();
    CHECK(cudaMemsetAsync(memory.get(), 0, 16, stream.get()) == cudaSuccess);
    return capture.end();
  };
  emulated::settings().refuses_graphs = true;
  CHECK(thrown_by([&] { record(); }) == "out of GPU memory: to make a graph of a step");
  CHECK(emulated::counts().graphs == graphs);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK_NOTHROW(capture.wait());  // which a stream that is still captured does not allow

  emulated::settings().refuses_graphs = false;
  {
    const GraphCapture::Graph graph = record();
    CHECK(emulated::counts().graphs == graphs + 1);
    CHECK_NOTHROW(capture.launch(graph));
    CHECK_NOTHROW(capture.wait());
  }
  CHECK(emulated::counts().graphs == graphs);
}

}  // namespace pagedinfer
