// Random expressions, and a reference of what may follow in them: an automaton that tries every
// text. Knows nothing of the library.
#pragma once

#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/answer_form.h"

namespace pagedinfer {

// An automaton with empty edges. From each of its states the end can be reached, so a text can be
// completed if it leads to any state.
struct Automaton {
  struct Edge {
    int to;
    std::string characters;  // "": an empty edge
  };
  std::vector<std::vector<Edge>> states;

  int add();
  void connect(int from, int to, std::string characters = "");
  // The states that the text leads to.
  std::set<int> after(int start, const std::string& text) const;

 private:
  void follow_empty(std::set<int>& at) const;
};

// An expression of the first `num_letters` letters of the alphabet and of d.
struct RandomForm {
  AnswerForm form = {};  // free: anything may follow
  Automaton automaton = {};
  int begin = 0, end = 0;

  bool may_begin(const std::string& text) const { return !automaton.after(begin, text).empty(); }
  bool is_whole(const std::string& text) const {
    return automaton.after(begin, text).contains(end);
  }
};

RandomForm random_form(std::mt19937& random, int num_letters = 3);

}  // namespace pagedinfer
