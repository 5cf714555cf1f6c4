#include "load/version_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include "core/build_facts.h"
#include "core/cpu_isa.h"
#include "ops/cpu/cpu_ops.h"

namespace pagedinfer {

std::string version_text() {
  const BuildFacts facts = build_facts();
  std::string built, here;
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAmx}) {
    built += fmt::format(" {}", name_of(isa));
  }
  for (const CpuIsa isa : available_isas()) here += fmt::format(" {}", name_of(isa));
  return fmt::format(
      "pagedinfer {}\n"
      "commit            {}\n"
      "compiler          {}\n"
      "instruction sets {}\n"
      "this processor   {}\n"
      "CUDA              {}\n"
      "libraries         {}, utf8proc {}",
      facts.version, build_commit(), facts.compiler, built, here, facts.cuda, facts.libraries,
      utf8proc_version());
}

}  // namespace pagedinfer
