// Runs a program on bytes that hold hashes of how they came about, so that two runs end equal only
// if every call saw what it was meant to see. Obeys queues and waits, and nothing else: the choice
// among calls that are ready is free.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "ir/program.h"

namespace tessera::testing {

class SymbolicMachine {
 public:
  SymbolicMachine(const Program& p, int64_t unit, uint64_t seed)
      : p_(p), unit_(unit), memory_(static_cast<size_t>(p.bytes / unit) + 4096), random_(seed) {
    for (size_t i = 0; i < memory_.size(); ++i)
      memory_[i] = i < static_cast<size_t>(p.state_bytes / unit) ? mix(1, i) : random_();
  }

  // Issue order, `steps` times.
  void run_in_order(int steps) {
    for (int s = 0; s < steps; ++s)
      for (const Call& c : p_.schedule) run(c);
  }

  // Some order that obeys queues and waits; `rush` is the queue that goes ahead whenever it can.
  // False if nothing is ready before the end.
  bool run_in_some_order(int steps, int rush) {
    const auto n = static_cast<int64_t>(p_.schedule.size());
    std::vector<bool> done(static_cast<size_t>(n * steps), false);
    std::vector<std::vector<int64_t>> queues(kQueues);
    for (int64_t x = 0; x < n * steps; ++x)
      queues[static_cast<size_t>(p_.segment(p_.call(CallId(x % n))).queue)].push_back(x);
    std::vector<size_t> next(kQueues, 0);
    const auto ready = [&](size_t q) {
      if (next[q] >= queues[q].size()) return false;
      const int64_t x = queues[q][next[q]];
      const Call& c = p_.call(CallId(x % n));
      for (const CallId y : c.after)
        if (!done[static_cast<size_t>(x / n * n + y.number())]) return false;
      for (const CallId y : c.before_step)
        if (x >= n && !done[static_cast<size_t>((x / n - 1) * n + y.number())]) return false;
      return true;
    };
    for (int64_t left = n * steps; left > 0; --left) {
      std::vector<size_t> can;
      for (size_t q = 0; q < kQueues; ++q)
        if (ready(q)) can.push_back(q);
      if (can.empty()) return false;
      size_t q = can[random_() % can.size()];
      for (const size_t c : can)
        if (static_cast<int>(c) == rush) q = c;
      const int64_t x = queues[q][next[q]++];
      run(p_.call(CallId(x % n)));
      done[static_cast<size_t>(x)] = true;
    }
    return true;
  }

  // What the state holds, as one number.
  uint64_t state() const {
    uint64_t h = 0;
    for (const Buffer& f : p_.buffers)
      if (f.state) h = mix(h, hash_of(f));
    return h;
  }

 private:
  static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t h = a * 0x9E3779B97F4A7C15ull ^ (b + 0xD1B54A32D192ED03ull);
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9ull;
    return h ^ (h >> 32);
  }
  uint64_t& at(const Buffer& f, int64_t i) {
    return memory_[static_cast<size_t>(f.offset / unit_ + i)];
  }
  int64_t units(const Buffer& f) const { return (p_.kind(f.kind).bytes + unit_ - 1) / unit_; }
  uint64_t hash_of(const Buffer& f) const {
    uint64_t h = 7;
    for (int64_t i = 0; i < units(f); ++i)
      h = mix(h, memory_[static_cast<size_t>(f.offset / unit_ + i)]);
    return h;
  }

  void run(const Call& c) {
    const Segment& s = p_.segment(c);
    uint64_t seen = std::hash<std::string>{}(s.name());
    seen = mix(seen, static_cast<uint64_t>(c.layer + 1));
    seen = mix(seen, static_cast<uint64_t>(c.microbatch + 1));
    for (size_t i = 0; i < c.buffers.size(); ++i)
      if (s.buffers[i].access == Access::kRead || s.buffers[i].access == Access::kUpdate)
        seen = mix(seen, hash_of(p_.buffer(c.buffers[i])));
    const int64_t scratch = scratch_offset(p_, s.queue) / unit_;
    for (int64_t i = 0; i < (s.scratch_bytes + unit_ - 1) / unit_; ++i)
      memory_[static_cast<size_t>(scratch + i)] = mix(seen, 3);
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      if (s.buffers[i].access == Access::kRead) continue;
      const Buffer& f = p_.buffer(c.buffers[i]);
      for (int64_t u = 0; u < units(f); ++u) {
        const uint64_t term = mix(seen, static_cast<uint64_t>(u) + 11 * i);
        const bool adds = s.buffers[i].access == Access::kAdd && !c.first_write[i];
        at(f, u) = adds ? at(f, u) + term : term;
      }
    }
  }

  const Program& p_;
  int64_t unit_;
  std::vector<uint64_t> memory_;
  std::mt19937_64 random_;
};

}  // namespace tessera::testing
