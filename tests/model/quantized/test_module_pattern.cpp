#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/error.h"
#include "model/quantized/module_pattern.h"

using namespace pagedinfer;

TEST_CASE("a pattern matches a whole name, or as an expression the beginning of one") {
  const std::string module = "model.layers.1.mlp.down_proj";
  for (const auto& [pattern, matches] : {std::pair("model.layers.1.mlp.down_proj", true),
                                         {"model.layers.1.mlp", false},
                                         {"down_proj", false},
                                         {"re:model.layers.1.mlp", true},
                                         {"re:mlp", false},
                                         {"re:.*down_proj$", true},
                                         {"re:.*down$", false},
                                         {"re:.*layers\\.(0|2)\\.", false},
                                         {"re:.*layers\\.[0-2]\\.", true},
                                         {"re:(?!.*mlp).*", false},
                                         {"re:.*layers\\.\\d{1,2}\\.mlp", true},
                                         {"re:a|model|b", true},
                                         {"re:a|mlp", false},
                                         {"re:", true}}) {
    CAPTURE(pattern);
    CHECK(ModulePattern(pattern).matches(module) == matches);
  }
}

TEST_CASE("an expression that would take long to match is an error soon") {
  // As many ways to match as there are paths: 2 to the power of the name's length.
  const std::string name = fmt::format("{:a<200}cb", "");
  CHECK_THROWS_WITH_AS((void)ModulePattern("re:(a*)*b").matches(name),
                       doctest::Contains("takes too long"), Error);
  CHECK_THROWS_AS(ModulePattern("re:("), Error);
}
