// A symbolic run in the order found by check_cycle. Each buffer has a version, the number of its
// writes. A read must find the version that issue order gives it, in bytes that nothing else has
// overwritten; sums must have one first write and be complete before they are read.
#include <algorithm>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "compile/check/two_steps.h"
#include "compile/memory/bytes.h"

namespace tessera::compile {
namespace {

// The last writer of each byte of the arena, in the order of a run.
class LastWriters {
 public:
  explicit LastWriters(const Program& p) : touches_(p), stamps_(Stamp()) {}

  // Records a write at that moment. Moments do not decrease.
  void write(BufferId f, int64_t moment) { stamps_.assign(touches_.buffer(f), {moment, f}); }
  void write_scratch(const Segment& s, int64_t moment) {
    stamps_.assign(touches_.scratch(s), {moment, kNone});
  }

  // Returns the last moment >= `since` at which another value that is still in the bytes of f was
  // written. kNone: all bytes hold what was written as f, or something older than `since`.
  int64_t overwritten(BufferId f, int64_t since) const {
    int64_t last = kNone;
    stamps_.read(touches_.buffer(f), [&](const Stamp& s) {
      if (s.buffer != f && s.moment >= since) last = std::max(last, s.moment);
    });
    return last;
  }

 private:
  struct Stamp {
    int64_t moment = -1;
    BufferId buffer = kNone;  // kNone: scratch
  };

  AccessMap touches_;
  ByteMap<Stamp> stamps_;
};

// The state of a buffer during the symbolic run.
struct Content {
  int64_t writer = kNone;  // the last position that wrote it in this step
  int64_t entered = 0;     // writes to its bytes before this moment do not matter
  int64_t reader = kNone;  // the last call that only read it, since the sum began
  int64_t taker = kNone;   // the last call that read or updated it, since the sum began
  bool summed = false;     // added to in this step
  int64_t version = 0;     // number of writes, over all steps
  int64_t step = kNone;    // the step of the last access
};

class Values : private TwoStepRun {
 public:
  Values(const Program& p, int rank)
      : TwoStepRun(p, rank), p_(p), writers_(p), contents_(p.buffers.size()) {}

  std::vector<Finding> find(const std::vector<int64_t>& order) {
    find_versions();
    order_ = &order;
    for (now_ = 0; now_ < std::ssize(order); ++now_) run(order[now_]);
    return findings();
  }

 private:
  // Finds the version that each read expects: the number of writes by earlier calls in issue order.
  void find_versions() {
    IdVector<BufferId, int64_t> version(p_.buffers.size(), 0);
    for (int64_t x = 0; x < 2 * length(); ++x) {
      const Segment& s = p_.segment(call(x));
      for (const BufferId f : call(x).buffers) meant_.push_back(version[f]);
      for (size_t i = 0; i < s.buffers.size(); ++i)
        if (s.buffers[i].access != Access::kRead) ++version[call(x).buffers[i]];
      first_.push_back(meant_.size() - s.buffers.size());
    }
  }

  void run(int64_t x) {
    const Call& c = call(x);
    const Segment& s = p_.segment(c);
    for (const BufferId f : c.buffers) enter_step(x, f);
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      const Access access = s.buffers[i].access;
      const int64_t meant = meant_[first_[x] + i];
      if (access == Access::kUpdate) update(x, c.buffers[i]);
      if (access == Access::kRead || access == Access::kUpdate) read(x, c.buffers[i], meant);
      if (access == Access::kRead) contents_[c.buffers[i]].reader = x;
      if (access == Access::kAdd) add(x, c.buffers[i], c.first_write[i]);
      if (access == Access::kWrite) write_first(x, c.buffers[i]);
    }
    writers_.write_scratch(s, now_);
    for (size_t i = 0; i < c.buffers.size(); ++i)
      if (s.buffers[i].access != Access::kRead) write(x, c.buffers[i]);
  }

  // A buffer that is not state begins each step empty.
  void enter_step(int64_t x, BufferId f) {
    Content& c = contents_[f];
    if (c.step == step_of(x)) return;
    if (!p_.buffer(f).state) c.entered = now_;
    c.writer = c.reader = c.taker = kNone;
    c.summed = false;
    c.step = step_of(x);
  }

  // Returns true if f still holds what was written to it; otherwise reports a finding.
  bool holds(int64_t x, BufferId f, const char* verb) {
    const Content& c = contents_[f];
    if (const int64_t at = writers_.overwritten(f, c.entered); at != kNone) {
      say(x,
          fmt::format("{} {} {} that {} overwrote", name(x), verb, buffer(f), name((*order_)[at])));
      return false;
    }
    if (c.writer != kNone || p_.buffer(f).state) return true;
    say(x, fmt::format("{} {} {}, which no call before it wrote", name(x), verb, buffer(f)));
    return false;
  }

  void read(int64_t x, BufferId f, int64_t meant) {
    Content& c = contents_[f];
    if (holds(x, f, "reads") && c.version != meant)
      say(x, fmt::format("{} expects {} after {} writes, but finds it after {}", name(x), buffer(f),
                         meant, c.version));
    c.taker = x;
  }

  // A call that reads a sum expects the complete sum, so nothing may change it afterwards.
  void update(int64_t x, BufferId f) {
    const Content& c = contents_[f];
    if (c.summed && c.reader != kNone)
      say(x, fmt::format("{} updates {} after {} read it", name(x), buffer(f), name(c.reader)));
  }

  void add(int64_t x, BufferId f, bool first_write) {
    Content& c = contents_[f];
    c.summed = true;
    if (first_write && c.writer != kNone)
      say(x, fmt::format("{} is the first write of {} but loses what {} wrote", name(x), buffer(f),
                         name(c.writer)));
    if (first_write) return;
    if (!holds(x, f, "adds to")) return;
    if (c.writer == kNone)
      say(x, fmt::format("{} adds to {}, which still holds the previous step's value: the call "
                         "should be its first write",
                         name(x), buffer(f)));
    else if (c.taker != kNone)
      say(x, fmt::format("{} adds to {} after {} read it, which got an incomplete sum", name(x),
                         buffer(f), name(c.taker)));
  }

  void write_first(int64_t x, BufferId f) {
    Content& c = contents_[f];
    if (c.writer != kNone && !p_.buffer(f).state)
      say(x,
          fmt::format("{} writes {} a second time, after {}", name(x), buffer(f), name(c.writer)));
    c.reader = c.taker = kNone;
  }

  void write(int64_t x, BufferId f) {
    writers_.write(f, now_);
    Content& c = contents_[f];
    c.writer = x;
    ++c.version;
  }

  const Program& p_;
  LastWriters writers_;
  const std::vector<int64_t>* order_ = nullptr;  // the order of the run
  int64_t now_ = 0;                              // index into it
  std::vector<int64_t> meant_;                   // per position and parameter: the version that it
                                                 // expects
  std::vector<size_t> first_;                    // index of the first parameter of a position in
                                                 // meant_
  IdVector<BufferId, Content> contents_;
};

}  // namespace

std::vector<Finding> check_value(const Program& p, int rank, const std::vector<int64_t>& order) {
  return Values(p, rank).find(order);
}

}  // namespace tessera::compile
