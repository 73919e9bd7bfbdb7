#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/bytes.h"
#include "compile/check_parts.h"

namespace tessera {
namespace {

// What the bytes of a frame hold during the symbolic run.
struct Content {
  int64_t writer = kNone;  // the last position that wrote it in this step
  int64_t entered = 0;     // what was written into its bytes before this moment is past
  int64_t reader = kNone;  // the last that only read it, since it was started
  int64_t taker = kNone;   // the last that read or updated it, since it was started
  bool read = true;        // since it was last written
  bool summed = false;     // added to in this step
  int64_t version = 0;     // how often it was written, all steps
  int64_t step = kNone;    // of the last touch
};

// Who wrote a byte last.
struct Stamp {
  int64_t moment = -1;    // index into the order of the run
  FrameId owner = kNone;  // the frame that was written; kNone: scratch
};

class Values {
 public:
  Values(const Program& p, int rank)
      : p_(p),
        rank_(rank),
        touches_(p),
        stamps_(Stamp()),
        contents_(p.frames.size()),
        used_(p.kinds.size()) {}

  std::vector<Finding> find(const std::vector<int64_t>& order) {
    find_versions();
    order_ = &order;
    for (now_ = 0; now_ < static_cast<int64_t>(order.size()); ++now_)
      run(order[static_cast<size_t>(now_)]);
    check_ends();
    return std::move(findings_);
  }

 private:
  int64_t length() const { return static_cast<int64_t>(p_.schedule.size()); }
  const Call& call(int64_t x) const { return p_.call(static_cast<CallId>(x % length())); }
  std::string name(int64_t x) const {
    return "call " + call_name(p_, static_cast<CallId>(x % length()));
  }
  std::string frame(FrameId f) const { return frame_name(p_, f); }
  FrameKindId kind_of(FrameId f) const { return p_.frame(f).kind; }

  void say(int64_t x, const std::string& text) {
    if (!said_.insert(text).second) return;  // once, not again in the second step
    findings_.push_back(
        {"value", text, rank_, x == kNone ? kNone : static_cast<CallId>(x % length())});
  }

  // The version that each read means: what the calls before it in issue order wrote.
  void find_versions() {
    std::vector<int64_t> version(p_.frames.size(), 0);
    for (int64_t x = 0; x < 2 * length(); ++x) {
      const Segment& s = p_.segment(call(x));
      for (const FrameId f : call(x).frames) meant_.push_back(version[static_cast<size_t>(f)]);
      for (size_t i = 0; i < s.frames.size(); ++i)
        if (s.frames[i].access != Access::kRead) ++version[static_cast<size_t>(call(x).frames[i])];
      first_.push_back(meant_.size() - s.frames.size());
    }
  }

  void run(int64_t x) {
    const Call& c = call(x);
    const Segment& s = p_.segment(c);
    for (const FrameId f : c.frames) enter_step(x, f);
    for (size_t i = 0; i < c.frames.size(); ++i) {
      const Access access = s.frames[i].access;
      const int64_t meant = meant_[first_[static_cast<size_t>(x)] + i];
      if (access == Access::kUpdate) update(x, c.frames[i]);
      if (access == Access::kRead || access == Access::kUpdate) read(x, c.frames[i], meant);
      if (access == Access::kRead) contents_[static_cast<size_t>(c.frames[i])].reader = x;
      if (access == Access::kAdd) add(x, c.frames[i], c.fresh[i]);
      if (access == Access::kWrite) write_first(x, c.frames[i]);
    }
    stamps_.assign(touches_.scratch(s), {now_, kNone});
    for (size_t i = 0; i < c.frames.size(); ++i) {
      if (s.frames[i].access != Access::kRead) write(x, c.frames[i]);
      if (s.frames[i].access != Access::kWrite)
        used_[static_cast<size_t>(kind_of(c.frames[i]))] = true;
    }
  }

  // A frame that is not state begins each step with nothing in it.
  void enter_step(int64_t x, FrameId f) {
    Content& c = contents_[static_cast<size_t>(f)];
    const int64_t step = x / length();
    if (c.step == step) return;
    if (!p_.frame(f).state) c.entered = now_;
    c.writer = c.reader = c.taker = kNone;
    c.read = true;
    c.summed = false;
    c.step = step;
  }

  // The last call that wrote other things into the bytes of f since it was written itself.
  int64_t overwriter(FrameId f) const {
    int64_t last = kNone;
    stamps_.read(touches_.frame(f), [&](const Stamp& s) {
      if (s.owner != f && s.moment >= contents_[static_cast<size_t>(f)].entered)
        last = std::max(last, s.moment);
    });
    return last == kNone ? kNone : (*order_)[static_cast<size_t>(last)];
  }

  // Whether f holds what was written to it; says so where it does not.
  bool holds(int64_t x, FrameId f, const char* verb) {
    const Content& c = contents_[static_cast<size_t>(f)];
    if (const int64_t by = overwriter(f); by != kNone) {
      say(x, fmt::format("{} {} {} that {} overwrote", name(x), verb, frame(f), name(by)));
      return false;
    }
    if (c.writer != kNone || p_.frame(f).state) return true;
    say(x, fmt::format("{} {} {}, which no call before it wrote", name(x), verb, frame(f)));
    return false;
  }

  void read(int64_t x, FrameId f, int64_t meant) {
    Content& c = contents_[static_cast<size_t>(f)];
    if (holds(x, f, "reads") && c.version != meant)
      say(x, fmt::format("{} means to read {} after {} writes and finds {}", name(x), frame(f),
                         meant, c.version));
    c.read = true;
    c.taker = x;
  }

  // Who reads a sum means the whole of it: nothing changes it afterwards.
  void update(int64_t x, FrameId f) {
    const Content& c = contents_[static_cast<size_t>(f)];
    if (c.summed && c.reader != kNone)
      say(x, fmt::format("{} updates {} after {} read it", name(x), frame(f), name(c.reader)));
  }

  void add(int64_t x, FrameId f, bool fresh) {
    Content& c = contents_[static_cast<size_t>(f)];
    c.summed = true;
    if (fresh && c.writer != kNone)
      say(x, fmt::format("{} is fresh in {} and loses what {} wrote", name(x), frame(f),
                         name(c.writer)));
    if (fresh) return;
    if (!holds(x, f, "adds to")) return;
    if (c.writer == kNone)
      say(x, fmt::format("{} adds to {} what the step before left there: it should be fresh",
                         name(x), frame(f)));
    else if (c.taker != kNone)
      say(x, fmt::format("{} adds to {} after {} read it", name(x), frame(f), name(c.taker)));
  }

  void write_first(int64_t x, FrameId f) {
    Content& c = contents_[static_cast<size_t>(f)];
    if (c.writer != kNone && !c.read)
      say(x, fmt::format("{} overwrites {}, which {} wrote and nobody read", name(x), frame(f),
                         name(c.writer)));
    else if (c.writer != kNone && !p_.frame(f).state)
      say(x,
          fmt::format("{} writes {} a second time, after {}", name(x), frame(f), name(c.writer)));
    c.reader = c.taker = kNone;
  }

  void write(int64_t x, FrameId f) {
    stamps_.assign(touches_.frame(f), {now_, f});
    Content& c = contents_[static_cast<size_t>(f)];
    c.writer = x;
    c.read = false;
    ++c.version;
  }

  // What the first layer read has a gradient that nobody wants where nothing before it is trained:
  // then none of any micro-batch is read.
  bool is_first_gradient(const Frame& f) const {
    const FrameKind& kind = p_.kind(f.kind);
    return f.layer == 0 && !kind.values.empty() && p_[kind.values[0]].role == Role::kStreamGradient;
  }
  std::vector<bool> first_gradients_read() const {
    std::vector<bool> read(p_.kinds.size(), false);
    for (size_t f = 0; f < p_.frames.size(); ++f)
      if (is_first_gradient(p_.frames[f]) && contents_[f].read)
        read[static_cast<size_t>(p_.frames[f].kind)] = true;
    return read;
  }

  // Of a kind that anybody reads, or adds to, no frame ends with something unread.
  void check_ends() {
    const std::vector<bool> wanted = first_gradients_read();
    for (size_t f = 0; f < p_.frames.size(); ++f) {
      const Content& c = contents_[f];
      if (p_.frames[f].state || c.read || !used_[static_cast<size_t>(p_.frames[f].kind)]) continue;
      if (is_first_gradient(p_.frames[f]) && !wanted[static_cast<size_t>(p_.frames[f].kind)])
        continue;
      say(c.writer, fmt::format("{} writes {}, which no call after it reads", name(c.writer),
                                frame(static_cast<FrameId>(f))));
    }
  }

  const Program& p_;
  int rank_;
  Touches touches_;
  ByteMap<Stamp> stamps_;
  const std::vector<int64_t>* order_ = nullptr;  // of the run
  int64_t now_ = 0;                              // index into it
  std::vector<int64_t> meant_;                   // of each parameter of each position
  std::vector<size_t> first_;                    // where a position's parameters begin there
  std::vector<Content> contents_;
  std::vector<bool> used_;  // of each kind: somebody reads it, or adds to it
  std::set<std::string> said_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_value(const Program& p, int rank, const std::vector<int64_t>& order) {
  return Values(p, rank).find(order);
}

}  // namespace tessera
