// Small random programs of the schedule level: segments without ops, buffers, calls on several
// queues. Every buffer is written before it is read.
#pragma once

#include <random>

#include "ir/program.h"

namespace tessera::testing {

struct RandomProgramOptions {
  int state_buffers = 3, buffers = 12, calls = 30;
  int queues = 3;          // the first of Queue
  int64_t largest = 1000;  // bytes of a buffer
  int scratch = 2000;      // bytes of a call at most
};

inline int64_t aligned(int64_t n, int64_t alignment = 64) {
  return (n + alignment - 1) / alignment * alignment;
}

class RandomProgram {
 public:
  RandomProgram(uint64_t seed, const RandomProgramOptions& options) : random_(seed), o_(options) {}

  Program make() {
    for (int i = 0; i < o_.state_buffers + o_.buffers; ++i) add_buffer(i < o_.state_buffers);
    // Every buffer is written once, and then touched a few times.
    std::vector<std::pair<int, BufferId>> touches;  // time, buffer
    for (const BufferId f : p_.buffers.ids()) {
      const int from = number(0, o_.calls - 1), to = number(from, o_.calls - 1);
      for (int n = number(1, 4); n > 0; --n) touches.emplace_back(number(from, to), f);
    }
    IdVector<BufferId, bool> written(p_.buffers.size(), false);
    for (int c = 0; c < o_.calls; ++c) {
      std::vector<BufferId> mine;
      for (const auto& [time, f] : touches)
        if (time == c && std::find(mine.begin(), mine.end(), f) == mine.end()) mine.push_back(f);
      add_call(mine, written);
    }
    return std::move(p_);
  }

 private:
  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  void add_buffer(bool state) {
    BufferKind k;
    k.name = (state ? "state" : "buffer") + std::to_string(p_.kinds.size());
    k.bytes = number(1, static_cast<int>(o_.largest));
    k.state = state;
    Buffer f;
    f.kind = p_.kinds.next_id();
    f.state = state;
    if (state) {
      f.offset = p_.state_bytes;
      p_.state_bytes = aligned(p_.state_bytes + k.bytes);
    }
    p_.kinds.push_back(std::move(k));
    p_.buffers.push_back(f);
  }

  void add_call(const std::vector<BufferId>& buffers, IdVector<BufferId, bool>& written) {
    Segment s;
    Call call;
    s.subject = "segment" + std::to_string(p_.segments.size());
    s.queue = static_cast<Queue>(number(0, 3) < 2 ? 0 : number(0, o_.queues - 1));
    if (number(0, 2) == 0) s.scratch_bytes = number(0, o_.scratch);
    for (const BufferId f : buffers) {
      const bool first = !written[f];
      const Access access = first ? (number(0, 1) ? Access::kAdd : Access::kWrite)
                                  : static_cast<Access>(number(0, 3));
      // A buffer may not be written anew in the middle of its life.
      s.buffers.push_back(
          {p_.buffer(f).kind, !first && access == Access::kWrite ? Access::kUpdate : access});
      call.buffers.push_back(f);
      written[f] = true;
    }
    call.segment = p_.segments.next_id();
    p_.segments.push_back(std::move(s));
    p_.schedule.push_back(std::move(call));
  }

  std::mt19937_64 random_;
  RandomProgramOptions o_;
  Program p_;
};

inline Program random_program(uint64_t seed, const RandomProgramOptions& options = {}) {
  return RandomProgram(seed, options).make();
}

}  // namespace tessera::testing
