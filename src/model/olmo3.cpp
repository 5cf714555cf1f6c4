// OLMo 3: an OLMo 2 in which three of four layers slide, and only the others have a scaled rope.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_olmo3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_newer_olmo(config, spec);
  const SlidingLayers slides =
      read_windows(config, all_but_each(4, spec), read_window(config, 4096), spec);
  constexpr double kTheta = 5e5;
  read_layer_ropes(config, {"rope_theta", kTheta}, {"rope_theta", kTheta}, slides, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
