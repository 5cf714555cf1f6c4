// What the benchmarks of the GPU share: buffers, timing, and the two peaks of this machine.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "kernels/check_rows.h"
#include "kernels/types.h"
#include "ops/cuda/cuda_owner.h"
#include "ops/cuda/graph_capture.h"

namespace pagedinfer {

using kernels::Type;

// The sizes of a real model.
struct Shape {
  const char* model;
  int hidden, heads, kv_heads, head_dim, intermediate, vocab, window;
};
constexpr Shape kShapes[] = {
    {"llama-3.2-3b", 3072, 24, 8, 128, 8192, 128256, 0},
    {"qwen3-4b", 2560, 32, 8, 128, 9728, 151936, 0},
    {"gemma-3-1b", 1152, 4, 1, 256, 6912, 262144, 512},
};
// Of a tiny model, to try the benchmarks where they are slow.
constexpr Shape kSmallShapes[] = {{"tiny", 128, 4, 2, 64, 192, 512, 32}};

struct Work {
  double bytes = 0, flops = 0;
};

class Bench {
 public:
  // Measures the benchmarks whose names contain one of these words; all of them without words.
  // `bytes` is the size of the ring of memory, max_launches bounds what is timed at once.
  Bench(std::vector<std::string> only, int64_t bytes, int max_launches)
      : bytes_(bytes), max_launches_(max_launches), only_(std::move(only)), stream_(make_stream()) {
    for (CudaEvent* event : {&begin_, &end_}) {
      cudaEvent_t made = nullptr;
      check_cuda(cudaEventCreate(&made), "an event");
      *event = CudaEvent(made);
    }
    memory_ = take_device(bytes_, "memory of the benchmark");
    std::vector<uint16_t> random(kPattern / 2);  // bfloat16 numbers of about unit size, either sign
    uint32_t state = 1;
    for (uint16_t& x : random) {
      state = state * 1664525 + 1013904223;
      x = static_cast<uint16_t>((state >> 16 & 0x8000) | 0x3f00 | (state >> 8 & 0x7f));
    }
    for (int64_t at = 0; at < bytes_; at += kPattern) {
      copy_to(memory_.get() + at, random.data(), kPattern);
    }
    const auto part = [&](int64_t eighths) { return bytes_ / 8 / kPattern * kPattern * eighths; };
    inputs_ = {memory_.get(), bytes_ - part(3)};
    changed_ = {memory_.get() + inputs_.bytes, part(1)};
    outputs_ = {memory_.get() + inputs_.bytes + changed_.bytes, part(2)};
    const int64_t half = bytes_ / 2;
    const double us = time([&](int) {
      check_cuda(cudaMemcpyAsync(memory_.get(), memory_.get() + half, static_cast<size_t>(half),
                                 cudaMemcpyDeviceToDevice, stream_.get()),
                 "a copy");
    });
    copy_gb_s_ = 2e-3 * static_cast<double>(half) / us;
    fmt::print(R"({{"kind":"copy","gb_s":{:.0f}}})"
               "\n",
               copy_gb_s_);
  }

  // Of the device.
  int multiprocessors() const {
    int count = 0;
    check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
               "to look at the GPU");
    return count;
  }

  // Measures the peak rate that products are compared with. `launch` queues a product of `flops`.
  void measure_peak(double flops, const std::function<void(int)>& launch) {
    peak_tflop_s_ = 1e-6 * flops / time(launch);
    fmt::print(R"({{"kind":"peak","tflop_s":{:.0f}}})"
               "\n",
               peak_tflop_s_);
    std::fflush(stdout);
  }

  // The next piece of a ring of memory, so that successive launches find nothing in the L2 cache.
  // An input is read only, so that its numbers stay finite; output() is for what a launch writes
  // before it reads it, and changed() for what it changes in place, which each measure() begins
  // with new numbers.
  template <class T = void>
  T* input(int64_t bytes) {
    return static_cast<T*>(inputs_.next(bytes));
  }
  template <class T = void>
  T* output(int64_t bytes) {
    return static_cast<T*>(outputs_.next(bytes));
  }
  template <class T = void>
  T* changed(int64_t bytes) {
    return static_cast<T*>(changed_.next(bytes));
  }
  // Throws if a launch has written to an input.
  void check_inputs() {
    constexpr int64_t kCols = 4096, kRowBytes = 2 * kCols;
    kernels::CheckRowsArgs args = {.type = Type::kBF16,
                                   .x = {memory_.get(), kCols},
                                   .num_rows = kPattern / kRowBytes,
                                   .cols = kCols,
                                   .hashes = output<uint64_t>(kPattern / kRowBytes * 8),
                                   .period = static_cast<int>(kPattern / kRowBytes),
                                   .num_different = nullptr};
    kernels::launch_check_rows(args, stream_.get());
    auto* const count = output<int>(sizeof(int));
    check_cuda(cudaMemsetAsync(count, 0, sizeof(int), stream_.get()), "to check the inputs");
    args.num_rows = inputs_.bytes / kRowBytes;
    args.num_different = count;
    kernels::launch_check_rows(args, stream_.get());
    if (read(count, 1)[0] != 0) throw Error("a benchmark has written to an input");
  }

  template <class T>
  const T* upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    void* const to = lists_at(bytes);
    copy_to(to, values.data(), bytes);
    return static_cast<const T*>(to);
  }
  void forget_lists() { lists_taken_ = 0; }
  template <class T>
  std::vector<T> read(const T* from, int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    check_cuda(cudaMemcpyAsync(values.data(), from, values.size() * sizeof(T),
                               cudaMemcpyDeviceToHost, stream_.get()),
               "to copy from the GPU");
    check_cuda(cudaStreamSynchronize(stream_.get()), "to copy from the GPU");
    return values;
  }

  // Times a launch and prints a line of JSON. `launch` gets the number of the call.
  void measure(const std::string& name, const std::string& shape, Work work,
               const std::function<void(int)>& launch) {
    if (!measures(name, shape)) return;
    ++num_measured_;
    check_cuda(cudaMemcpyAsync(changed_.begin, inputs_.begin, static_cast<size_t>(changed_.bytes),
                               cudaMemcpyDeviceToDevice, stream_.get()),
               "new numbers");
    const double us = time(launch);
    const double gb_s = 1e-3 * work.bytes / us, tflop_s = 1e-6 * work.flops / us;
    fmt::print(
        R"({{"kind":"kernel","name":"{}","shape":"{}","us":{:.2f},"gb_s":{:.0f},"of_copy":{:.3f},"tflop_s":{:.1f},"of_peak":{:.3f}}})"
        "\n",
        name, shape, us, gb_s, gb_s / copy_gb_s_, tflop_s, tflop_s / peak_tflop_s_);
    std::fflush(stdout);
  }

  // Whether benchmarks of this name, with this shape if it is given, were asked for: by a part of
  // the name, or by the whole name, "@" and the whole shape.
  bool measures(const std::string& name, const std::string& shape = "") const {
    const auto asks = [&](const std::string& word) {
      const size_t at = word.find('@');
      if (at == std::string::npos) return name.find(word) != std::string::npos;
      return name == word.substr(0, at) && (shape.empty() || shape == word.substr(at + 1));
    };
    return only_.empty() || std::ranges::any_of(only_, asks);
  }
  void count_measured() { ++num_measured_; }
  int num_measured() const { return num_measured_; }
  cudaStream_t stream() const { return stream_.get(); }

  // Microseconds of one launch: the median over several replays of a graph of many, so that the
  // host's time does not count. What a first call loads or chooses is there before.
  double time(const std::function<void(int)>& launch, int num_runs = 7) {
    int turn = 0;
    const auto run = [&](int count, const std::function<void()>& queue) {
      check_cuda(cudaEventRecord(begin_.get(), stream_.get()), "an event");
      queue();
      check_cuda(cudaGetLastError(), "a launch");
      check_cuda(cudaEventRecord(end_.get(), stream_.get()), "an event");
      check_cuda(cudaEventSynchronize(end_.get()), "a run");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "a run");
      return 1e3 * static_cast<double>(ms) / count;
    };
    const auto launch_all = [&](int count) {
      for (int i = 0; i < count; ++i) launch(turn++);
    };
    run(2, [&] { launch_all(2); });
    const double rough = run(3, [&] { launch_all(3); });
    const int count = static_cast<int>(
        std::clamp<double>(20000 / std::max(rough, 1.0), 3, static_cast<double>(max_launches_)));
    GraphCapture capture(stream_.get());
    capture.begin();
    launch_all(count);
    const GraphCapture::Graph graph = capture.end();
    const auto replay = [&] { capture.launch(graph); };
    run(count, replay);
    std::vector<double> times;
    for (int i = 0; i < num_runs; ++i) times.push_back(run(count, replay));
    std::nth_element(times.begin(), times.begin() + num_runs / 2, times.end());
    return times[static_cast<size_t>(num_runs / 2)];
  }

 private:
  static constexpr int64_t kListBytes = int64_t{64} << 20;
  static constexpr int64_t kPattern = int64_t{2} << 20;  // bytes after which the numbers repeat

  struct Ring {
    char* begin = nullptr;
    int64_t bytes = 0, taken = 0;

    void* next(int64_t size) {
      size = (size + 255) / 256 * 256;
      if (size > bytes) throw Error("the benchmark's memory is too small");
      if (taken + size > bytes) taken = 0;
      void* const p = begin + taken;
      taken += size;
      return p;
    }
  };

  // On the stream of the launches, so that a launch finds the copy complete.
  void copy_to(void* to, const void* from, int64_t bytes) {
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                               stream_.get()),
               "to copy to the GPU");
    check_cuda(cudaStreamSynchronize(stream_.get()), "to copy to the GPU");
  }

  void* lists_at(int64_t bytes) {
    if (lists_.get() == nullptr) lists_ = take_device(kListBytes, "lists of the benchmark");
    void* const p = lists_.get() + lists_taken_;
    lists_taken_ += (bytes + 255) / 256 * 256;
    if (lists_taken_ > kListBytes) throw Error("the benchmark's lists are too long");
    return p;
  }

  const int64_t bytes_;
  const int max_launches_;
  const std::vector<std::string> only_;
  int num_measured_ = 0;
  CudaStream stream_;
  CudaEvent begin_, end_;
  DeviceBytes memory_, lists_;
  Ring inputs_, changed_, outputs_;
  int64_t lists_taken_ = 0;
  double copy_gb_s_ = 0, peak_tflop_s_ = 1;
};

}  // namespace pagedinfer
