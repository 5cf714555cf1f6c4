#include "text/bpe/pre_tokenizer.h"

#include <utility>

namespace pagedinfer {
namespace {

// Splits one piece after the other. For each: begin(), match() for every match in ascending order,
// finish().
class Cut {
 public:
  Cut(SplitBehavior behavior, bool invert) : behavior_(behavior), invert_(invert) {}

  // Begins another piece, whose parts are appended to `to`.
  void begin(std::string_view piece, Pieces& to) {
    piece_ = piece;
    to_ = &to;
    done_ = 0;
    open_ = false;
    last_separator_ = false;
  }
  void match(size_t begin, size_t end) {
    if (done_ < begin) add(piece_.substr(done_, begin - done_), invert_);
    if (begin < end) add(piece_.substr(begin, end - begin), !invert_);
    done_ = end;
  }
  void finish() {
    if (done_ < piece_.size()) add(piece_.substr(done_), invert_);
  }

 private:
  void add(std::string_view part, bool separator) {
    const bool merge = open_ && joins(separator);
    last_separator_ = separator;
    if (separator && behavior_ == SplitBehavior::kRemoved) {
      if (to_->ends.empty()) to_->at_start = false;
      return;
    }
    to_->text += part;
    if (merge) {
      to_->ends.back() = to_->text.size();
    } else {
      to_->ends.push_back(to_->text.size());
    }
    open_ = true;
  }

  // Whether the next part is merged with the part before it.
  bool joins(bool separator) const {
    switch (behavior_) {
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated: return false;
      case SplitBehavior::kMergedWithPrevious: return separator && !last_separator_;
      case SplitBehavior::kMergedWithNext: return !separator && last_separator_;
      case SplitBehavior::kContiguous: return separator == last_separator_;
    }
    return false;
  }

  const SplitBehavior behavior_;
  const bool invert_;
  std::string_view piece_ = {};
  Pieces* to_ = nullptr;
  size_t done_ = 0;
  bool open_ = false, last_separator_ = false;
};

// Replaces the pieces by what `visit(piece, to)` appends to `to` for each of them.
template <typename Visit>
void rewrite(Pieces& pieces, Visit visit) {
  Pieces to{.at_start = pieces.at_start};
  to.text.reserve(pieces.text.size());
  size_t begin = 0;
  for (const size_t end : pieces.ends) {
    visit(std::string_view(pieces.text).substr(begin, end - begin), to);
    begin = end;
  }
  pieces = std::move(to);
}

}  // namespace

PreTokenizerStep split_at(std::shared_ptr<const Regex> pattern, SplitBehavior behavior,
                          bool invert) {
  return [pattern = std::move(pattern), behavior, invert](Pieces& pieces) {
    RegexScan scan(*pattern);
    Cut cut(behavior, invert);
    rewrite(pieces, [&](std::string_view piece, Pieces& to) {
      cut.begin(piece, to);
      scan.start(piece);
      while (const auto match = scan.next()) cut.match(match->begin, match->end);
      cut.finish();
    });
  };
}

PreTokenizerStep split_at(std::string literal, SplitBehavior behavior, bool invert) {
  return [literal = std::move(literal), behavior, invert](Pieces& pieces) {
    Cut cut(behavior, invert);
    rewrite(pieces, [&](std::string_view piece, Pieces& to) {
      cut.begin(piece, to);
      for (size_t at = 0; (at = piece.find(literal, at)) != std::string_view::npos;
           at += literal.size()) {
        cut.match(at, at + literal.size());
      }
      cut.finish();
    });
  };
}

PreTokenizerStep add_prefix_space() {
  return [](Pieces& pieces) {
    rewrite(pieces, [](std::string_view piece, Pieces& to) {
      if (!piece.starts_with(' ')) to.text += ' ';
      to.text += piece;
      to.ends.push_back(to.text.size());
    });
  };
}

PreTokenizerStep metaspace(std::string mark, PrependScheme prepend, bool split) {
  return [mark = std::move(mark), prepend, split](Pieces& pieces) {
    const bool at_start = pieces.at_start;
    rewrite(pieces, [&](std::string_view piece, Pieces& to) {
      const bool first = to.ends.empty() && at_start;
      const bool wants =
          prepend == PrependScheme::kAlways || (prepend == PrependScheme::kFirst && first);
      if (wants && !piece.starts_with(' ') && !piece.starts_with(mark)) to.text += mark;
      for (const char c : piece) {
        if (c == ' ') {
          to.text += mark;
        } else {
          to.text += c;
        }
      }
      to.ends.push_back(to.text.size());
    });
    if (split) split_at(mark, SplitBehavior::kMergedWithNext, false)(pieces);
  };
}

}  // namespace pagedinfer
