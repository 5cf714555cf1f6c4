// The emulated device behaves as badly as a GPU may, and refuses what a GPU refuses.
#include <numeric>

#include "core/error.h"
#include "kernels/launch.cuh"
#include "ops/cuda/cuda_owner.h"
#include "tests/support/cuda_support.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {
namespace kernels {
namespace {

// Writes what the memory of its block holds before anything is written to it.
template <class T>
void read_unwritten_kernel(int* to) {
  __shared__ T alone, several[3];
  auto* const dynamic = reinterpret_cast<T*>(dynamic_shared());
  if (threadIdx.x == 0) {
    to[blockIdx.x] = std::max({int{alone}, int{several[2]}, int{*dynamic}});
    alone = several[2] = *dynamic = 7;
  }
}

// The blocks that have begun and not ended, and those that began while others ran.
struct Running {
  int now, together;
};
// Counts blocks whose own memory others have changed.
void keep_memory_kernel(Running* running, int* num_changed) {
  __shared__ int number;
  int* const numbers = reinterpret_cast<int*>(dynamic_shared());
  if (threadIdx.x == 0) {
    if (atomicAdd(&running->now, 1) > 0) ++running->together;
    number = static_cast<int>(blockIdx.x);
  }
  numbers[threadIdx.x] = static_cast<int>(blockIdx.x);
  for (int i = 0; i < 20; ++i) __syncthreads();
  const int own = static_cast<int>(blockIdx.x);
  if (number != own || numbers[threadIdx.x] != own) atomicAdd(num_changed, 1);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&running->now, -1);
}

}  // namespace
}  // namespace kernels

namespace {

constexpr int kCount = 100;

// A stream, memory of the device and pinned memory, each of kCount numbers.
struct Bench {
  Bench() {
    REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
    REQUIRE(cudaMalloc(&device, sizeof(int) * kCount) == cudaSuccess);
    REQUIRE(cudaMallocHost(&host, sizeof(int) * kCount) == cudaSuccess);
  }
  ~Bench() {
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(cudaFree(device) == cudaSuccess);
    CHECK(cudaFreeHost(host) == cudaSuccess);
    static_cast<void>(cudaGetLastError());
  }

  cudaError_t send(int value) {
    std::fill(host, host + kCount, value);
    return cudaMemcpyAsync(device, host, sizeof(int) * kCount, cudaMemcpyHostToDevice, stream);
  }
  cudaError_t fetch() {
    return cudaMemcpyAsync(host, device, sizeof(int) * kCount, cudaMemcpyDeviceToHost, stream);
  }
  bool host_has(int value) const {
    return std::all_of(host, host + kCount, [&](int x) { return x == value; });
  }

  cudaStream_t stream = nullptr;
  int *device = nullptr, *host = nullptr;
};

void add_kernel(int* to, int value) { to[threadIdx.x] += value; }
void add(Bench& bench, int value, dim3 grid = {}, int threads = kCount, int shared_bytes = 0) {
  kernels::launch_kernel(add_kernel, grid, dim3(static_cast<unsigned>(threads)), shared_bytes,
                         bench.stream, bench.device, value);
}

}  // namespace

TEST_CASE(
    "emulated: without a wait the host reads too early and overwrites data before it is sent") {
  Bench bench;
  int num_early = 0, num_overwritten = 0;
  for (int i = 0; i < 1000; ++i) {
    CHECK(bench.send(i) == cudaSuccess);
    add(bench, 1);
    CHECK(bench.fetch() == cudaSuccess);
    num_early += bench.host_has(i);
    CHECK(cudaStreamSynchronize(bench.stream) == cudaSuccess);
    CHECK(bench.host_has(i + 1));

    CHECK(bench.send(i) == cudaSuccess);
    std::fill(bench.host, bench.host + kCount, -1);
    CHECK(bench.fetch() == cudaSuccess);
    CHECK(cudaStreamSynchronize(bench.stream) == cudaSuccess);
    num_overwritten += bench.host_has(-1);
  }
  for (const int count : {num_early, num_overwritten}) {
    CHECK(count > 100);
    CHECK(count < 900);
  }
}

TEST_CASE("emulated: a stream overtakes another one as far as events permit") {
  Bench first, second;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  int num_ahead = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool waits = i % 2 == 0;
    CHECK(cudaMemsetAsync(first.device, 0, sizeof(int) * kCount, first.stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(first.stream) == cudaSuccess);
    add(first, 7);
    CHECK(cudaEventRecord(event, first.stream) == cudaSuccess);
    if (waits) CHECK(cudaStreamWaitEvent(second.stream, event) == cudaSuccess);
    CHECK(cudaMemcpyAsync(second.host, first.device, sizeof(int) * kCount, cudaMemcpyDeviceToHost,
                          second.stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(second.stream) == cudaSuccess);
    if (waits) CHECK(second.host_has(7));
    num_ahead += !second.host_has(7);
    CHECK(cudaEventSynchronize(event) == cudaSuccess);
    CHECK(cudaEventQuery(event) == cudaSuccess);
  }
  CHECK(num_ahead > 50);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("emulated: a graph repeats the captured work on the current contents of memory") {
  Bench bench;
  REQUIRE(cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  add(bench, 3);
  add(bench, 4);
  CHECK(bench.fetch() == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(bench.stream, &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  for (int i = 0; i < 50; ++i) {
    CHECK(bench.send(i) == cudaSuccess);
    CHECK(cudaGraphLaunch(exec, bench.stream) == cudaSuccess);
    CHECK(cudaGraphLaunch(exec, bench.stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(bench.stream) == cudaSuccess);
    CHECK(bench.host_has(i + 14));
  }
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("emulated: during a capture waiting and allocating are refused") {
  const auto calls = std::vector<std::function<cudaError_t(Bench&)>>{
      [](Bench& b) { return cudaStreamSynchronize(b.stream); },
      [](Bench& b) { return cudaStreamQuery(b.stream); },
      [](Bench&) { return cudaDeviceSynchronize(); },
      [](Bench&) {
        void* p = nullptr;
        return cudaMalloc(&p, 16);
      },
      [](Bench& b) {  // memory that is not pinned
        int number = 0;
        return cudaMemcpyAsync(b.device, &number, 4, cudaMemcpyHostToDevice, b.stream);
      }};
  for (const auto& call : calls) {
    Bench bench;
    REQUIRE(cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    add(bench, 3);
    CHECK(call(bench) == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(bench.stream, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
    CHECK(cudaStreamSynchronize(bench.stream) == cudaSuccess);
  }
}

TEST_CASE("emulated: launches are refused that a GPU refuses") {
  Bench bench;
  const auto answer = [&](dim3 grid, int threads, int shared_bytes) {
    add(bench, 1, grid, threads, shared_bytes);
    return cudaGetLastError();
  };
  CHECK(answer({3, 1, 1}, 100, 0) == cudaSuccess);
  CHECK(answer({0, 1, 1}, 100, 0) == cudaErrorInvalidConfiguration);
  CHECK(answer({1, 0, 1}, 100, 0) == cudaErrorInvalidConfiguration);
  CHECK(answer({1, 65536, 1}, 100, 0) == cudaErrorInvalidConfiguration);
  CHECK(answer({1, 1, 65536}, 100, 0) == cudaErrorInvalidConfiguration);
  CHECK(answer({1, 1, 1}, 0, 0) == cudaErrorInvalidConfiguration);
  CHECK(answer({1, 1, 1}, 1025, 0) == cudaErrorInvalidConfiguration);
  CHECK(answer({1, 1, 1}, 100, 48 << 10) == cudaSuccess);
  CHECK(answer({1, 1, 1}, 100, (48 << 10) + 1) == cudaErrorInvalidValue);
  const auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  const int most = emulated::settings().shared_memory;
  CHECK(cudaFuncSetAttribute(add_kernel, attribute, most) == cudaSuccess);
  CHECK(answer({1, 1, 1}, 100, most) == cudaSuccess);
  CHECK(answer({1, 1, 1}, 100, most + 1) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(add_kernel, attribute, most + 1) == cudaErrorInvalidValue);
}

TEST_CASE("emulated: shared memory has no block's numbers when the next one begins") {
  Bench bench;
  const auto check_unwritten = [&](auto zero) {
    CHECK(bench.send(0) == cudaSuccess);
    kernels::launch_kernel(kernels::read_unwritten_kernel<decltype(zero)>, dim3(kCount), dim3(40),
                           64, bench.stream, bench.device);
    CHECK(bench.fetch() == cudaSuccess);
    CHECK(cudaStreamSynchronize(bench.stream) == cudaSuccess);
    CHECK(bench.host_has(-1));
  };
  check_unwritten(int{});
  check_unwritten(int8_t{});
}

TEST_CASE("emulated: a block may stop in its middle while others run, and keeps its memory") {
  Bench bench;
  CHECK(bench.send(0) == cudaSuccess);
  auto* const running = reinterpret_cast<kernels::Running*>(bench.device);
  kernels::launch_kernel(kernels::keep_memory_kernel, dim3(400), dim3(64), 64 * sizeof(int),
                         bench.stream, running, bench.device + 2);
  CHECK(bench.fetch() == cudaSuccess);
  CHECK(cudaStreamSynchronize(bench.stream) == cudaSuccess);
  const auto [num_running, num_together, num_changed] =
      std::to_array({bench.host[0], bench.host[1], bench.host[2]});
  CHECK(num_running == 0);
  CHECK(num_together > 50);
  CHECK(num_changed == 0);
}

TEST_CASE("emulated: a copy stays inside an allocation, which is NaN at first") {
  Bench bench;
  CHECK(bench.fetch() == cudaSuccess);
  CHECK(cudaStreamSynchronize(bench.stream) == cudaSuccess);
  CHECK(bench.host_has(-1));
  CHECK(cudaMemcpyAsync(bench.device, bench.host, sizeof(int) * kCount + 1, cudaMemcpyHostToDevice,
                        bench.stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(bench.host, bench.device, 4, cudaMemcpyHostToDevice, bench.stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(bench.device + kCount - 1, 0, 5, bench.stream) == cudaErrorInvalidValue);
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, free + 1) == cudaErrorMemoryAllocation);
}

TEST_CASE("emulated: the settings of a step's rows travel with its batch") {
  constexpr int kVocab = 50, kRows = 3;
  ModelSpec spec;
  spec.vocab = kVocab;
  const auto told = make_gpu(spec, {}), blind = make_gpu(spec, {});
  Random random{3};
  const SamplingParams params = {.temperature = 0.8f, .top_p = 0.9f, .repetition_penalty = 1.3f};
  const std::vector<TokenId> prompt = {4, 5, 6};
  for (int step = 0; step < 20; ++step) {
    Batch batch = {.query_starts = {0}, .max_blocks = 1, .block_size = 1};
    std::vector<SampleRow> rows;
    for (int i = 0; i < kRows; ++i) {
      batch.tokens.push_back(random.below(kVocab));
      batch.positions.push_back(step);
      batch.slot_mapping.push_back(-1);
      batch.query_starts.push_back(i + 1);
      batch.context_lens.push_back(1);
      batch.block_table.push_back(0);
      batch.logit_tokens.push_back(i);
      rows.push_back({.params = &params,
                      .prompt = prompt,
                      .key = random.bits(),
                      .position = static_cast<uint32_t>(step),
                      .logits_row = i});
    }
    const std::vector<float> logits = random.normals(kRows * kVocab, 3);
    std::vector<DrawnToken> drawn[2];
    int64_t copies[2];
    for (const bool is_told : {false, true}) {
      CudaOps& ops = is_told ? *told : *blind;
      if (is_told) ops.steps().expect(rows);
      int64_t before = emulated::counts().copies;
      static_cast<void>(ops.steps().stage(batch));
      copies[is_told] = emulated::counts().copies - before;
      const Tensor on_device = ops.steps().scratch(DType::kF32, kRows, kVocab);
      ops.write(logits.data(), on_device);
      before = emulated::counts().copies;
      const StepProtocol::Ticket ticket = ops.steps().sample(on_device, rows);
      drawn[is_told].resize(rows.size());
      ops.steps().collect(ticket, drawn[is_told]);
      copies[is_told] += emulated::counts().copies - before;
    }
    CHECK(drawn[1] == drawn[0]);
    CHECK(copies[1] == copies[0] - 1);
  }
}

TEST_CASE("emulated: if cuBLAS has no algorithm, the error names the product") {
  ModelSpec spec;
  spec.heads = spec.kv_heads = 1;
  spec.head_dim = 64;
  spec.vocab = 10;
  const auto gpu = make_gpu(spec, {.compute = DType::kF32});
  const Tensor x = gpu->memory().allocate(DType::kF32, 3, 24),
               weight = gpu->memory().allocate(DType::kF32, 16, 24);
  const Product product = {weight, gpu->memory().allocate(DType::kF32, 3, 16)};
  const emulated::KeptSettings kept;
  emulated::settings().algorithms_found = 0;
  CHECK_THROWS_WITH_AS(gpu->arithmetic().matmul(x, {&product, 1}),
                       doctest::Contains("24 float32 by 16"), Error);
  emulated::settings() = kept.before;
  emulated::settings().heuristic_status = 15;  // not supported
  CHECK_THROWS_WITH_AS(gpu->arithmetic().matmul(x, {&product, 1}),
                       doctest::Contains("24 float32 by 16"), Error);
  emulated::settings() = kept.before;
  CHECK_NOTHROW(gpu->arithmetic().matmul(x, {&product, 1}));
}

TEST_CASE("emulated: pinned memory that cannot be had is the host's, not the GPU's") {
  const emulated::KeptSettings kept;
  emulated::settings().pinned_memory = 1 << 20;
  CHECK_NOTHROW(take_pinned(1 << 20, "to copy from"));
  CHECK_THROWS_WITH_AS(take_pinned((1 << 20) + 1, "to copy from"),
                       "out of memory of the host that a GPU can read: 1048577 bytes to copy from",
                       Error);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace pagedinfer
