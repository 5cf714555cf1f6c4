#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "commands/plan/request_sample.h"

namespace pagedinfer {
namespace {

using Prompts = std::vector<std::vector<TokenId>>;

// Prompts of a tiny vocabulary that begin with pieces of one another.
Prompts random_prompts(int count, std::mt19937& random) {
  const auto below = [&](size_t end) { return static_cast<size_t>(random()) % end; };
  Prompts prompts;
  for (int i = 0; i < count; ++i) {
    std::vector<TokenId> prompt;
    if (!prompts.empty() && below(3) > 0) {
      const std::vector<TokenId>& other = prompts[below(prompts.size())];
      prompt.assign(other.begin(), other.begin() + static_cast<long>(below(other.size() + 1)));
    }
    for (size_t more = 1 + below(20); more > 0; --more) {
      prompt.push_back(static_cast<TokenId>(below(3)));
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

// The longest prefix in full blocks that an earlier prompt has, by comparing all of them.
int num_shared(const Prompts& prompts, const std::vector<bool>& shares, size_t number, int block) {
  int longest = 0;
  for (size_t i = 0; i < number; ++i) {
    const auto [at, unused] = std::ranges::mismatch(prompts[i], prompts[number]);
    const int same = static_cast<int>(at - prompts[i].begin()) / block * block;
    if (shares[i]) longest = std::max(longest, same);
  }
  return shares[number] ? longest : 0;
}

}  // namespace

TEST_CASE("a request shares the longest prefix that an earlier one has, in full blocks") {
  std::mt19937 random(160);
  int64_t num_found = 0;
  for (int round = 0; round < 60; ++round) {
    const int block = 1 + static_cast<int>(random() % 5);
    const Prompts prompts = random_prompts(40, random);
    RequestSample sample(block);
    std::vector<bool> shares;
    for (const std::vector<TokenId>& prompt : prompts) {
      shares.push_back(random() % 6 > 0);
      sample.add(prompt, {.num_prompt = static_cast<int>(prompt.size()), .shares = shares.back()});
    }
    CHECK(sample.is_whole());
    REQUIRE(sample.requests().size() == prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      const SampledRequest& request = sample.requests()[i];
      const int expected = num_shared(prompts, shares, i, block);
      CHECK(request.num_shared == expected);
      CHECK(request.num_found() == std::min(expected, request.num_prompt - 1));
      num_found += request.num_found();
      if (expected == 0) continue;
      // And the one that it names has it.
      REQUIRE(request.like >= 0);
      REQUIRE(request.like < static_cast<int32_t>(i));
      const std::vector<TokenId>& like = prompts[request.like];
      REQUIRE(std::ssize(like) >= expected);
      CHECK(std::equal(like.begin(), like.begin() + expected, prompts[i].begin()));
    }
  }
  CHECK(num_found > 1000);
}

TEST_CASE("beyond its bounds a sample keeps whole groups that share a prefix") {
  std::mt19937 random(161);
  for (const RequestSample::Bounds bounds :
       {RequestSample::Bounds{.requests = 100}, RequestSample::Bounds{.blocks = 300}}) {
    const int block = 4;
    // 200 heads of 8 tokens, 5 requests each, mixed.
    std::vector<int> heads;
    for (int i = 0; i < 1000; ++i) heads.push_back(i % 200);
    std::ranges::shuffle(heads, random);
    RequestSample sample(block, bounds);
    for (int i = 0; i < 1000; ++i) {
      std::vector<TokenId> prompt(8, heads[i]);
      prompt.insert(prompt.end(), 4, 1000 + i);
      sample.add(prompt, {.num_prompt = 12, .max_new = heads[i]});
    }
    CHECK(!sample.is_whole());
    const std::vector<SampledRequest>& kept = sample.requests();
    CHECK(std::ssize(kept) <= bounds.requests);
    CHECK(kept.size() >= 20);
    std::vector<int> count(200), num_shared(200);
    for (size_t i = 0; i < kept.size(); ++i) {
      const int head = kept[i].max_new;
      ++count[head];
      num_shared[head] += kept[i].num_shared;
      if (kept[i].num_shared > 0) {
        REQUIRE(kept[i].like < static_cast<int32_t>(i));
        CHECK(kept[kept[i].like].max_new == head);
      }
    }
    for (int head = 0; head < 200; ++head) {
      CHECK((count[head] == 0 || count[head] == 5));
      CHECK(num_shared[head] == (count[head] == 0 ? 0 : 4 * 8));
    }
  }
}

TEST_CASE("of a group that is too large alone a sample keeps as large a share as of the others") {
  for (const int num_others : {0, 4000}) {
    CAPTURE(num_others);
    std::mt19937 random(161);
    std::vector<int> roots(8000, 0);
    for (int i = 0; i < num_others; ++i) roots.push_back(1 + i / 2);
    std::ranges::shuffle(roots, random);
    RequestSample sample(4, {.requests = 1000, .blocks = 1'000'000});
    int64_t tokens = 0;
    for (size_t i = 0; i < roots.size(); ++i) {
      const auto own = static_cast<TokenId>(1'000'000 + i);
      const std::vector<TokenId> prompt = {roots[i], 7, 7, 7, own};
      sample.add(prompt, {.num_prompt = 5});
      tokens += 5;
    }
    CHECK_FALSE(sample.is_whole());
    const auto kept = static_cast<double>(sample.requests().size());
    CHECK(kept > 400);
    CHECK(kept <= 1000);
    double found = 0;
    for (size_t i = 0; i < sample.requests().size(); ++i) {
      const SampledRequest& request = sample.requests()[i];
      CHECK(request.like < static_cast<int32_t>(i));
      CHECK((request.num_shared > 0) == (request.like >= 0));
      found += request.num_found();
    }
    const double all = 4.0 * (7999 + num_others / 2);
    CHECK(found * static_cast<double>(roots.size()) / kept == doctest::Approx(all).epsilon(0.1));
  }
}

}  // namespace pagedinfer
