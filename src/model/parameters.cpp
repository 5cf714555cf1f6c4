#include "model/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/refusal.h"
#include "model/needed_tensors.h"

namespace pagedinfer {
namespace {

int64_t idle_parameters(const ModelSpec& spec) {
  const ExpertsSpec& experts = spec.experts;
  const int64_t biases = experts.biases ? 2 * int64_t{experts.width} + spec.hidden : 0;
  const int64_t each = 3 * int64_t{experts.width} * spec.hidden + biases;
  return std::ranges::count(spec.layers, true, &LayerSpec::has_experts) *
         (experts.count - experts.per_token) * each;
}

}  // namespace

Parameters parameters_of(const ModelSpec& spec, const std::vector<Checkpoint::Declared>& needed) {
  Parameters parameters;
  for (const Checkpoint::Declared& tensor : needed) parameters.all += tensor.rows * tensor.cols;
  parameters.active = parameters.all - idle_parameters(spec);
  return parameters;
}

Parameters parameters_of(const OpenedModel& model) {
  return parameters_of(model.spec,
                       needed_tensors(model.spec, model.names, model.checkpoint, model.quantized));
}

std::string text_of(const Parameters& parameters) {
  if (parameters.active == parameters.all) return grouped(parameters.all);
  return fmt::format("{}, {} of them for a token", grouped(parameters.all),
                     grouped(parameters.active));
}

}  // namespace pagedinfer
