// Pieces go through the steps one by one, so that no list of them is in memory.
//
// A step splits a piece at the matches of its pattern and passes on each part to the next step,
// depth first. A behavior decides what becomes of a match: its own piece, part of the piece before
// or after it, or nothing. Merger decides that with one span of memory, because it depends only on
// the neighbor to the left.
//
// The kinds Digits, Punctuation and Whitespace are patterns too. Their classes are those of Rust's
// regex crate and of Hugging Face's tokenizers, whose Unicode versions differ from ours
// (unicode_sets.h).
#include "data/split_steps.h"

#include "base/error.h"

namespace tessera::data {
namespace {

// Returns the pattern of a step as Hugging Face's tokenizers define it.
PatternText pattern_of(const SplitStep& step) {
  switch (step.kind) {
    case SplitStep::Kind::kSplit:
    case SplitStep::Kind::kMetaspace:
      return step.pattern;
    case SplitStep::Kind::kDigits:
      return {"\\p{HfNumeric}", true};
    case SplitStep::Kind::kPunctuation:
      return {"\\p{HfPunctuation}", true};
    case SplitStep::Kind::kWhitespace:
      return {"\\p{HfWord}+|[^\\p{HfWord}\\s]+", true};
    case SplitStep::Kind::kWhitespaceSplit:
      return {"\\s", true};
  }
  CHECK(false, "split step {}", static_cast<int>(step.kind));
}

struct Span {
  size_t begin = 0, end = 0;
  bool match = false;
};

// Merges matches with their neighbors. Spans arrive from left to right and cover the text; only the
// last one is kept.
template <class F>
class Merger {
 public:
  Merger(SplitBehavior behavior, const F& emit) : behavior_(behavior), emit_(emit) {}

  void add(Span span) {
    if (span.begin == span.end) return;
    if (merges(span)) {
      last_.end = span.end;
      last_.match = span.match;
      return;
    }
    flush();
    last_ = span;
    pending_ = true;
  }
  void flush() {
    const bool removed = behavior_ == SplitBehavior::kRemoved && last_.match;
    if (pending_ && !removed) emit_(last_);
    pending_ = false;
  }

 private:
  bool merges(Span span) const {
    if (!pending_) return false;
    switch (behavior_) {
      case SplitBehavior::kMergedWithPrevious:
        return span.match && !last_.match;
      case SplitBehavior::kMergedWithNext:
        return !span.match && last_.match;
      case SplitBehavior::kContiguous:
        return span.match == last_.match;
      default:
        return false;
    }
  }
  SplitBehavior behavior_;
  const F& emit_;
  Span last_;
  bool pending_ = false;
};

template <class F>
void split(const TextPattern& pattern, SplitBehavior behavior, bool invert, std::string_view text,
           const F& emit) {
  Merger<F> merger(behavior, emit);
  size_t from = 0;
  pattern.each_match(text, [&](PatternMatch match) {
    merger.add({from, match.begin, invert});
    merger.add({match.begin, match.end, !invert});
    from = match.end;
  });
  merger.add({from, text.size(), invert});
  merger.flush();
}

}  // namespace

Splitter::Splitter(const std::vector<SplitStep>& steps) {
  for (const SplitStep& step : steps) {
    Step made{step, TextPattern(pattern_of(step))};
    if (step.kind == SplitStep::Kind::kWhitespace) made.step.invert = true;
    if (step.kind == SplitStep::Kind::kWhitespace || step.kind == SplitStep::Kind::kWhitespaceSplit)
      made.step.behavior = SplitBehavior::kRemoved;
    steps_.push_back(std::move(made));
  }
}

struct Splitter::Run {
  const std::vector<Step>& steps;
  const std::function<void(std::string_view)>& found;

  void apply(size_t at, std::string_view text, bool at_start) const {
    if (at == steps.size()) return found(text);
    const SplitStep& step = steps[at].step;
    if (step.kind == SplitStep::Kind::kMetaspace) return metaspace(at, text, at_start);
    split(steps[at].pattern, step.behavior, step.invert, text, [&](Span span) {
      apply(at + 1, text.substr(span.begin, span.end - span.begin), at_start && span.begin == 0);
    });
  }

  // Replaces spaces with the step's character, adds it in front, and splits before each of them.
  void metaspace(size_t at, std::string_view text, bool at_start) const {
    const SplitStep& step = steps[at].step;
    std::string replaced;
    replaced.reserve(text.size() + text.size() / 2);
    for (const char c : text) {
      if (c == ' ')
        replaced += step.pattern.text;
      else
        replaced += c;
    }
    const bool prepends = step.prepend == PrependScheme::kAlways ||
                          (step.prepend == PrependScheme::kFirst && at_start);
    if (prepends && !replaced.starts_with(step.pattern.text)) replaced.insert(0, step.pattern.text);
    if (!step.split) return apply(at + 1, replaced, at_start);
    const std::string_view all = replaced;
    split(steps[at].pattern, SplitBehavior::kMergedWithNext, false, all, [&](Span span) {
      apply(at + 1, all.substr(span.begin, span.end - span.begin), at_start && span.begin == 0);
    });
  }
};

void Splitter::each_piece(std::string_view text, bool at_start,
                          const std::function<void(std::string_view)>& found) const {
  Run{steps_, found}.apply(0, text, at_start);
}

}  // namespace tessera::data
