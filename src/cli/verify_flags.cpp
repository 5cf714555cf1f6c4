#include "cli/verify_flags.h"

#include "cli/command_flags.h"
#include "cli/flag_help.h"
#include "cli/run_flags.h"
#include "cli/variant_flags.h"

namespace pagedinfer {

void add_verify_flags(CLI::App& command, VerifyConfig& verify) {
  add_own_flags(command, verify_flags(), verify);
  add_flags(command, verify.config, [](const Setting& setting) {
    return takes_setting(setting, unused_in_verify(), verify_flags());
  });
  command.footer(
      "\nThe file is run in both configurations, a first; the flags below are those of both. All"
      "\ntokens must be equal, and errors must have the same code." +
      exit_codes_help("verify"));
}

void read_sides(VerifyConfig& verify) {
  const VariantRules rules = {
      .may_differ = may_differ_in_verify,
      .why_not =
          "both configurations answer the same requests, and their answers go nowhere else; "
          "configurations differ in flags of model, device, cache and scheduling",
      .help = "pagedinfer verify --help"};
  verify.a = read_variant("--a", verify.a.flags, verify.config, rules);
  verify.b = read_variant("--b", verify.b.flags, verify.config, rules);
}

}  // namespace pagedinfer
