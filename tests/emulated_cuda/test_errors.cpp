// What the backend makes of calls that fail: whether the device counts as lost, and what is said.
#include <functional>
#include <string>

#include "core/error.h"
#include "ops/cuda/device_error.h"
#include "ops/cuda/graph_capture.h"
#include "ops/cuda/product_library.h"
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

TEST_CASE("emulated: a trial that fails is the algorithm's fault, unless the GPU is lost") {
  constexpr int64_t kRows = 4, kN = 8, kK = 16, kBytes = kRows * kN * kK * 4;
  const CudaStream stream = make_stream();
  const DeviceBytes x = take_device(kBytes, "for a test"),
                    weight = take_device(kBytes, "for a test"),
                    out = take_device(kBytes, "for a test"),
                    workspace = take_device(kProductWorkspaceBytes, "for a test");
  ProductLibrary library;
  const ProductKey key = {.n = kN,
                          .k = kK,
                          .in = DType::kF32,
                          .out = DType::kF32,
                          .x_stride = kK,
                          .weight_stride = kK,
                          .out_stride = kN,
                          .x_alignment = 256,
                          .weight_alignment = 256,
                          .out_alignment = 256};
  const ProductLibrary::Layouts layouts = library.describe(key);
  const auto proposed = library.propose(key, layouts, kRows, AlgorithmRule::kUnsplit);
  REQUIRE(!proposed.empty());
  const auto runs = [&] {
    return library.try_multiply(layouts, {x.get(), weight.get(), out.get(), kRows, workspace.get()},
                                proposed.front(), stream.get());
  };
  CHECK(runs());
  for (const cudaError_t error : {cudaErrorInvalidConfiguration, cudaErrorLaunchOutOfResources}) {
    emulated::fail_once(0, error);
    CHECK(!runs());
    CHECK(runs());
  }
  CHECK(
      thrown_if(cudaErrorIllegalAddress, [&] { static_cast<void>(runs()); }).starts_with("lost: "));
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
