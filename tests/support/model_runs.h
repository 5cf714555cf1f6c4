// Runs of several configurations over one loaded model.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "load/run.h"
#include "tests/support/workload.h"

namespace pagedinfer {

// Requests of all lengths from 1 to 40, some of them drawn with a temperature.
inline std::vector<Request> requests_of(TokenId vocab) {
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) {
    requests.push_back(make_request(i, 1 + i * 17 % 40, 2 + i % 7, vocab));
    requests.back().sampling.temperature = i % 3 == 0 ? 0.8f : 0.0f;
  }
  return requests;
}

inline EngineLine engine_line(EngineLine line, int64_t) { return line; }
inline EngineLine engine_line(Request request, int64_t index) {
  return {line_of(std::move(request), index)};
}

// Gives these requests to an engine, in their order, and runs it to the end. They are a Request or
// an EngineLine each. A Request becomes a line of its own, of the index that it has among them.
template <class Line>
void run_requests(
    Engine& engine, const std::vector<Line>& requests, const std::function<void(Completion)>& done,
    const std::function<void(const StepStats&)>& stepped = [](const StepStats&) {},
    const std::function<void(int num_blocks)>& leaked = [](int) {}) {
  size_t num_read = 0;
  engine.run(
      {.next =
           [&](Wait, EngineLine& line) {
             if (num_read == requests.size()) return Pull::kEnded;
             line = engine_line(requests[num_read], static_cast<int64_t>(num_read));
             ++num_read;
             return Pull::kItem;
           },
       .done = [&](Completion completion, const RequestStats&) { done(std::move(completion)); },
       .stepped = stepped,
       .leaked = leaked,
       .interrupted = [] { return false; }});
}

// Answers by index. `after_step` may look at the run.
inline std::map<int64_t, std::vector<TokenId>> answer_all(
    LoadedModel& model, const RunPlan& plan, const std::vector<Request>& requests,
    const std::function<void(const EngineParts&)>& after_step = [](const EngineParts&) {}) {
  Run run(model, plan);
  double now = 0;
  const EngineParts parts = run.parts([&] { return now += 1; });
  Engine engine(parts, plan.limits);
  std::map<int64_t, std::vector<TokenId>> answers;
  run_requests(
      engine, requests,
      [&](const Completion& completion) {
        answers[completion.head.index] = completion.choices.at(0).tokens;
      },
      [&](const StepStats&) { after_step(parts); });
  return answers;
}

// Configurations for a tiny model that differ in all that a run may differ in.
inline std::vector<Config> configs_of_runs(const std::string& model, Config::Device device) {
  Config paged;
  paged.model = model;
  paged.device = device;
  paged.deterministic = true;
  paged.threads = 2;
  paged.max_model_len = 100;
  paged.block_size = 4;
  paged.num_blocks = 60;  // some requests are preempted
  paged.max_batch_size = 8;
  paged.max_step_tokens = 20;
  Config contiguous = paged;
  contiguous.kv = Config::Kv::kContiguous;
  contiguous.block_size = 16;
  contiguous.num_blocks = 30;
  contiguous.max_batch_size = 24;
  contiguous.max_step_tokens = 90;
  Config large_blocks = paged;
  large_blocks.block_size = 32;
  large_blocks.num_blocks = 9;
  Config fewer_blocks = paged;
  fewer_blocks.num_blocks = 45;
  std::vector<Config> configs = {large_blocks, paged, contiguous, fewer_blocks};
  if (device == Config::Device::kCpu) {
    configs.push_back(paged);
    configs.back().kv_dtype = DType::kI8;
  }
  return configs;
}

}  // namespace pagedinfer
