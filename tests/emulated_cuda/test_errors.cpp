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

}  // namespace

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
