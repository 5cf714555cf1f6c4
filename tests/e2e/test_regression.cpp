// The regression comparison notices what it is for.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

// The program, but for a last character where it is given `flag`: the records of that one
// configuration end differently.
void write_impostor(const std::string& path, const std::string& flag) {
  write_file(path, "#!/bin/sh\n\"" + built_program() +
                       "\" \"$@\"\ncode=$?\n"
                       "case \" $* \" in *\" " +
                       flag +
                       " \"*)\n"
                       "  while [ \"$1\" != --output ]; do shift; done\n"
                       "  sed -i '$ s/}$/ }/' \"$2\" ;;\n"
                       "esac\nexit $code\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

bool can_run_scripts() {
  return run_program({"/bin/sh", "-c", "command -v bash python3 cmp"}).exit_code == 0;
}

}  // namespace

TEST_CASE("the regression comparison fails where one configuration differs") {
  if (!can_run_scripts()) {
    MESSAGE("SKIPPED: no bash or python3 here");
    return;
  }
  const TempDir dir;
  write_impostor(dir / "pagedinfer", "--num-blocks 4096");
  const Ended ended = run_program(
      {"/usr/bin/env", "bash", source_dir() + "/scripts/regression.sh", dir / "pagedinfer", "30"});
  CAPTURE(ended.out);
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 1);
  CHECK(ended.out.find("same bytes: paged") != std::string::npos);
  CHECK(ended.out.find("contiguous differs from alone") != std::string::npos);
}

TEST_CASE("the regression comparison fails where too few lines leave a small cache large enough") {
  if (!can_run_scripts()) {
    MESSAGE("SKIPPED: no bash or python3 here");
    return;
  }
  for (const char* lines : {"1", "4"}) {
    const Ended ended = run_program(
        {"/usr/bin/env", "bash", source_dir() + "/scripts/regression.sh", built_program(), lines});
    CAPTURE(ended.out);
    CHECK(ended.exit_code == 1);
    CHECK(ended.out.find("small-paged-cache: preempted no sequence of ") != std::string::npos);
  }
}

}  // namespace pagedinfer
