#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "io/input_lines.h"
#include "support.h"

using namespace pagedinfer;

namespace {

struct Taken {
  std::string text;
  int64_t index, turn, number;
};

std::vector<Taken> take(const std::string& path, const LineChoice& choice) {
  InputLines lines(path, choice);
  std::vector<Taken> taken;
  while (const auto line = lines.next()) {
    if (line->taken)
      taken.push_back({std::string(line->text), line->index, line->turn, line->number});
  }
  return taken;
}

std::string random_lines(std::mt19937& random) {
  std::string text;
  for (auto left = random() % 60; left > 0; --left) {
    text += random() % 3 == 0 ? " " : std::to_string(random());
    text += random() % 5 == 0 ? "\r\n" : "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("shards share the lines of a file, and call them what the whole run does") {
  const TempDir dir;
  const std::string path = dir / "in";
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    write_file(path, random_lines(random));
    LineChoice choice;
    if (round % 2 == 0) choice.limit = 1 + static_cast<int64_t>(random() % 40);
    const std::vector<Taken> whole = take(path, choice);
    if (choice.limit) CHECK(whole.size() == std::min(take(path, {}).size(), size_t(*choice.limit)));
    std::map<int64_t, Taken> shared;  // by index
    choice.shard.count = 1 + static_cast<int64_t>(random() % 9);
    for (choice.shard.index = 0; choice.shard.index < choice.shard.count; ++choice.shard.index) {
      int64_t turn = 0, last = -1;
      for (const Taken& line : take(path, choice)) {
        CHECK(line.turn == turn++);
        CHECK(line.index > last);
        CHECK((line.number - 1) % choice.shard.count == choice.shard.index);
        CHECK(shared.emplace(line.index, line).second);
        last = line.index;
      }
    }
    REQUIRE(shared.size() == whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      CHECK(whole[i].index == static_cast<int64_t>(i));
      CHECK(whole[i].turn == static_cast<int64_t>(i));
      const Taken& line = shared.at(whole[i].index);
      CHECK(line.text == whole[i].text);
      CHECK(line.number == whole[i].number);
    }
  }
}
