#include "commands/verify/answer_file.h"

#include <concepts>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/check.h"

namespace pagedinfer {
namespace {

template <class T>
concept Plain = std::is_trivially_copyable_v<T>;

// Writer and Reader handle the same parts in the same order: see pack().
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <Plain T>
  void operator()(const T& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& text) { plain_list(text); }
  template <Plain T>
  void operator()(const std::vector<T>& list) {
    plain_list(list);
  }
  // A list whose items have parts.
  template <class T, class F>
  void each(const std::vector<T>& list, F&& pack_item) {
    (*this)(list.size());
    for (const T& item : list) pack_item(item);
  }
  template <class T, class F>
  void maybe(const std::optional<T>& part, F&& pack_part) {
    (*this)(part.has_value());
    if (part) pack_part(*part);
  }

 private:
  template <class List>
  void plain_list(const List& list) {
    (*this)(list.size());
    out_.append(reinterpret_cast<const char*>(list.data()),
                list.size() * sizeof(typename List::value_type));
  }

  std::string& out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <Plain T>
  void operator()(T& value) {
    copy(&value, sizeof value);
  }
  void operator()(std::string& text) { plain_list(text); }
  template <Plain T>
  void operator()(std::vector<T>& list) {
    plain_list(list);
  }
  template <class T, class F>
  void each(std::vector<T>& list, F&& pack_item) {
    list.resize(size());
    for (T& item : list) pack_item(item);
  }
  template <class T, class F>
  void maybe(std::optional<T>& part, F&& pack_part) {
    bool has_value = false;
    (*this)(has_value);
    if (has_value) pack_part(part.emplace());
  }
  bool at_end() const { return left_.empty(); }

 private:
  template <class List>
  void plain_list(List& list) {
    list.resize(size());
    copy(list.data(), list.size() * sizeof(typename List::value_type));
  }
  size_t size() {
    size_t size = 0;
    (*this)(size);
    return size;
  }
  void copy(void* to, size_t count) {
    CHECK(count <= left_.size());
    if (count > 0) std::memcpy(to, left_.data(), count);
    left_.remove_prefix(count);
  }

  std::string_view left_;
};

// Hands the parts of an answer that are kept to a Writer or a Reader.
template <class Codec, class List>
void pack_log_probs(Codec& codec, List& list) {
  codec.each(list, [&](auto& token) {
    codec(token.token);
    codec(token.log_probability);
    codec(token.candidates);
  });
}

template <class Codec, class Answer>
void pack(Codec& codec, Answer& answer) {
  codec(answer.head.index);
  codec(answer.head.turn);
  codec(answer.head.line);
  codec(answer.head.id_json);
  codec(answer.error.code);  // a pointer into the table of codes, valid while the program runs
  codec.each(answer.trace.prompts, codec);
  codec.each(answer.trace.prompt_hashes, codec);
  codec.each(answer.trace.draws, [&](auto& draws) {
    codec.each(draws, [&](auto& draw) {
      codec(draw.token);
      codec(draw.log_probability);
      codec(draw.candidates);
      codec(draw.logits_hash);
    });
  });
  codec.each(answer.prompt_log_probs, [&](auto& list) { pack_log_probs(codec, list); });
  codec.each(answer.choices, [&](auto& choice) {
    codec(choice.tokens);
    codec.maybe(choice.log_probs, [&](auto& list) { pack_log_probs(codec, list); });
  });
}

}  // namespace

void AnswerFile::add(const Completion& answer) {
  bytes_.clear();
  Writer writer(bytes_);
  pack(writer, answer);
  const Place place = {.offset = answers_.size(), .bytes = std::ssize(bytes_)};
  answers_.append(bytes_);
  const std::string_view text(reinterpret_cast<const char*>(&place), sizeof place);
  places_.write_at(answer.head.turn * static_cast<int64_t>(sizeof place), text);
  ++size_;
}

void AnswerFile::finish() { answers_.flush(); }

Completion AnswerFile::read(int64_t turn) const {
  CHECK(0 <= turn && turn < size_);
  Place place;
  places_.read_at(turn * static_cast<int64_t>(sizeof place), reinterpret_cast<char*>(&place),
                  sizeof place);
  std::string bytes(static_cast<size_t>(place.bytes), '\0');
  answers_.read_at(place.offset, bytes.data(), place.bytes);
  Completion answer;
  Reader reader(bytes);
  pack(reader, answer);
  CHECK(reader.at_end());
  return answer;
}

}  // namespace pagedinfer
