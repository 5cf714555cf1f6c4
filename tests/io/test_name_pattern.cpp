#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "core/error.h"
#include "io/name_pattern.h"

using namespace pagedinfer;

TEST_CASE("a pattern matches whole names as Python's re.fullmatch does") {
  const struct {
    const char *pattern, *name;
    bool matches;
  } kCases[] = {
      {"q_proj", "q_proj", true},
      {"q_proj", "q_projx", false},
      {"q_proj", "model.q_proj", false},
      {".*q_proj", "model.q_proj", true},
      {"q|q_proj", "q_proj", true},  // not the first way that matches a part
      {R"(.*layers\.\d+\.(?:self_attn\.)?[qv]_proj)", "model.layers.10.self_attn.v_proj", true},
      {R"(.*layers\.\d+\.(?:self_attn\.)?[qv]_proj)", "model.layers.x.self_attn.v_proj", false},
      {R"(.*\.(?!lm_head)\w+)", "model.lm_head", false},
      {R"((?P<number>\d)\.(?P=number))", "4.4", true},
      {R"((?P<number>\d)\.(?P=number))", "4.5", false},
      {R"(a{2,3}$)", "aaa", true},
      {"(?i)Q_PROJ", "q_proj", true},
      {"a.c", "a.c", true},
      {"", "", true},
      {"", "a", false},
  };
  for (const auto& [pattern, name, matches] : kCases) {
    CAPTURE(pattern);
    CAPTURE(name);
    CHECK(NamePattern(pattern).matches(name) == matches);
  }
}

TEST_CASE("what is no pattern is an error, and so is one that takes too long") {
  for (const char* const pattern : {"(", "a)", "[a", "*", "a**", "(?P<x", "a{,3}", "\\"}) {
    CAPTURE(pattern);
    CHECK_THROWS_WITH_AS(NamePattern{pattern}, doctest::Contains("is no regular expression"),
                         Error);
  }
  const NamePattern slow("(a|aa)+b");
  const std::string name = fmt::format("{:a<200}bb", "");
  CHECK_THROWS_WITH_AS((void)slow.matches(name), doctest::Contains("takes too long"), Error);
  CHECK_THROWS_AS(NamePattern(std::string(100'000, '(') + std::string(100'000, ')')), Error);
}
