#include "commands/verify/answer_file.h"

#include <concepts>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/check.h"

namespace pagedinfer {
namespace {

template <class T>
concept Plain = std::is_trivially_copyable_v<T>;

// Appends values to bytes, or takes them from the bytes, in the same order.
class Codec {
 public:
  explicit Codec(std::string& written) : written_(&written) {}
  explicit Codec(std::string_view bytes) : left_(bytes) {}

  template <Plain T>
  void operator()(T& value) {
    copy(&value, sizeof value);
  }
  void operator()(std::string& text) { plain_list(text); }
  template <Plain T>
  void operator()(std::vector<T>& list) {
    plain_list(list);
  }
  // A list whose items have parts.
  template <class T, class F>
  void each(std::vector<T>& list, F&& pack_item) {
    resize(list);
    for (T& item : list) pack_item(item);
  }
  template <class T, class F>
  void maybe(std::optional<T>& part, F&& pack_part) {
    bool has_value = part.has_value();
    (*this)(has_value);
    if (has_value && !part) part.emplace();
    if (has_value) pack_part(*part);
  }
  bool at_end() const { return left_.empty(); }

 private:
  template <class List>
  void plain_list(List& list) {
    resize(list);
    copy(list.data(), list.size() * sizeof(typename List::value_type));
  }
  template <class List>
  void resize(List& list) {
    size_t size = list.size();
    (*this)(size);
    list.resize(size);
  }
  void copy(void* data, size_t count) {
    if (written_ != nullptr) {
      written_->append(static_cast<const char*>(data), count);
      return;
    }
    CHECK(count <= left_.size());
    if (count > 0) std::memcpy(data, left_.data(), count);
    left_.remove_prefix(count);
  }

  std::string* written_ = nullptr;  // null: bytes are read
  std::string_view left_ = {};
};

void pack_log_probs(Codec& codec, std::vector<TokenLogProbs>& list) {
  codec.each(list, [&](TokenLogProbs& token) {
    codec(token.token);
    codec(token.log_probability);
    codec(token.candidates);
  });
}

// The parts of an answer that are kept.
void pack(Codec& codec, Completion& answer) {
  codec(answer.head.index);
  codec(answer.head.turn);
  codec(answer.head.line);
  codec(answer.head.id_json);
  codec(answer.error.code);  // a pointer into the table of codes, valid while the program runs
  codec.each(answer.trace.prompts, codec);
  codec.each(answer.trace.prompt_hashes, codec);
  codec.each(answer.trace.draws, [&](std::vector<DrawnToken>& draws) {
    codec.each(draws, [&](DrawnToken& draw) {
      codec(draw.token);
      codec(draw.log_probability);
      codec(draw.candidates);
      codec(draw.logits_hash);
    });
  });
  codec.each(answer.prompt_log_probs, [&](auto& list) { pack_log_probs(codec, list); });
  codec.each(answer.choices, [&](CompletionChoice& choice) {
    codec(choice.tokens);
    codec.maybe(choice.log_probs, [&](auto& list) { pack_log_probs(codec, list); });
  });
}

}  // namespace

void AnswerFile::add(const Completion& answer) {
  bytes_.clear();
  Codec writer(bytes_);
  Completion kept = answer;
  pack(writer, kept);
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
  Codec reader{std::string_view(bytes)};
  pack(reader, answer);
  CHECK(reader.at_end());
  return answer;
}

}  // namespace pagedinfer
