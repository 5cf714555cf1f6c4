#include "tests/support/random_form.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

namespace pagedinfer {

int Automaton::add() {
  states.emplace_back();
  return static_cast<int>(states.size()) - 1;
}

void Automaton::connect(int from, int to, std::string characters) {
  states[static_cast<size_t>(from)].push_back({to, std::move(characters)});
}

void Automaton::follow_empty(std::set<int>& at) const {
  std::vector<int> todo(at.begin(), at.end());
  while (!todo.empty()) {
    const int state = todo.back();
    todo.pop_back();
    for (const Edge& edge : states[static_cast<size_t>(state)]) {
      if (edge.characters.empty() && at.insert(edge.to).second) todo.push_back(edge.to);
    }
  }
}

std::set<int> Automaton::after(int start, const std::string& text) const {
  std::set<int> at = {start};
  follow_empty(at);
  for (const char c : text) {
    std::set<int> next;
    for (const int state : at) {
      for (const Edge& edge : states[static_cast<size_t>(state)]) {
        if (edge.characters.find(c) != std::string::npos) next.insert(edge.to);
      }
    }
    follow_empty(next);
    at = std::move(next);
  }
  return at;
}

namespace {

class Builder {
 public:
  Builder(Automaton& all, std::mt19937& random, int num_letters)
      : all_(all), random_(random), num_letters_(static_cast<unsigned>(num_letters)) {}

  // Adds a random expression between two new states, and its text.
  std::pair<int, int> add(int depth, std::string& text) {
    const int kind = static_cast<int>(random_() % (depth > 3 ? 2 : 6));
    if (kind <= 1) {
      const int begin = all_.add(), end = all_.add();
      const char c = static_cast<char>('a' + random_() % num_letters_);
      text += kind == 0 ? std::string(1, c) : fmt::format("[{}d]", c);
      all_.connect(begin, end, kind == 0 ? std::string(1, c) : fmt::format("{}d", c));
      return {begin, end};
    }
    if (kind <= 3) {
      const auto [begin, middle] = add(depth + 1, text);
      const auto [next, end] = add(depth + 1, text);
      all_.connect(middle, next);
      return {begin, end};
    }
    const int begin = all_.add(), end = all_.add();
    text += "(";
    const auto [first, last] = add(depth + 1, text);
    all_.connect(begin, first);
    all_.connect(last, end);
    if (kind == 4) {
      text += "|";
      const auto [other, other_last] = add(depth + 1, text);
      all_.connect(begin, other);
      all_.connect(other_last, end);
      text += ")";
      return {begin, end};
    }
    const auto mark = random_() % 3;
    text += mark == 0 ? ")*" : mark == 1 ? ")+" : ")?";
    if (mark != 1) all_.connect(begin, end);
    if (mark != 2) all_.connect(last, first);
    return {begin, end};
  }

 private:
  Automaton& all_;
  std::mt19937& random_;
  const unsigned num_letters_;
};

}  // namespace

RandomForm random_form(std::mt19937& random, int num_letters) {
  RandomForm result;
  std::string text;
  std::tie(result.begin, result.end) = Builder(result.automaton, random, num_letters).add(0, text);
  result.form = {.kind = FormKind::kRegex, .texts = std::vector<std::string>{text}};
  return result;
}

}  // namespace pagedinfer
