// Who wrote each byte of the arena last, in the order of a run.
#pragma once

#include <algorithm>

#include "compile/memory/bytes.h"

namespace tessera {

class LastWriters {
 public:
  explicit LastWriters(const Program& p) : touches_(p), stamps_(Stamp()) {}

  // At that moment, which none before it exceeds.
  void write(FrameId f, int64_t moment) { stamps_.assign(touches_.frame(f), {moment, f}); }
  void write_scratch(const Segment& s, int64_t moment) {
    stamps_.assign(touches_.scratch(s), {moment, kNone});
  }

  // The last moment, from `since` on, at which anything else was written that still stands in the
  // bytes of f; kNone: all of them hold what was written as f, or before that.
  int64_t overwritten(FrameId f, int64_t since) const {
    int64_t last = kNone;
    stamps_.read(touches_.frame(f), [&](const Stamp& s) {
      if (s.frame != f && s.moment >= since) last = std::max(last, s.moment);
    });
    return last;
  }

 private:
  struct Stamp {
    int64_t moment = -1;
    FrameId frame = kNone;  // kNone: scratch
  };

  Touches touches_;
  ByteMap<Stamp> stamps_;
};

}  // namespace tessera
