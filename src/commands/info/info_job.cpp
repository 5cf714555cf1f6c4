#include "commands/info/info_job.h"

#include "commands/info/info_text.h"
#include "commands/info/model_info.h"
#include "commands/info/print_output.h"
#include "commands/info/render_job.h"
#include "core/error.h"
#include "core/exit_codes.h"
#include "settings/values.h"

namespace pagedinfer {

int run_info(const InfoConfig& config) {
  if (config.ids && config.render.empty()) {
    throw Error("--ids: has an effect with --render FILE only; leave it out");
  }
  Config checked = config.config;
  checked.input = std::string("-");  // any input, because check_values() expects one
  check_values(checked);
  const ModelInfo info = describe_model(config.config);
  if (!config.render.empty()) return render_lines(config, info);
  print_output(config.json ? info_json(info) : info_text(info));
  return info.supported() ? exit_code::kDone : exit_code::kFailed;
}

}  // namespace pagedinfer
