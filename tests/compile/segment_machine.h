// Executes the ops of a segment symbolically: bytes hold marks instead of numbers. Ops of several
// queues overlap in time in a random order that queues and waits allow, so that a read of bytes
// that something else wrote shows, whichever op was early or late.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "base/error.h"
#include "ir/chunk.h"
#include "ir/program.h"

namespace tessera::testing {

// What the ops of a segment read and write in the order of the list, independent of offsets.
class DataFlow {
 public:
  struct Access {
    OperandUse touch;
    int64_t version = 0;  // of each piece of the value, before a read or after a write
  };
  // The accesses of each op. A value is made of `kPieces` pieces; writes count up their versions.
  static constexpr int32_t kPieces = 4;  // divisible by 1, 2 and 4 chunks

  DataFlow(const std::vector<Op>& ops, ValueSpan values) {
    for (const Op& op : ops) {
      auto& list = versions_.emplace_back();
      for (const OperandUse& t : uses_of(op, values)) {
        auto& of_value = now_[t.value];
        of_value.resize(kPieces);
        const auto [first, last] = pieces(t.chunk);
        std::vector<int64_t> seen;
        for (int32_t k = first; k < last; ++k)
          seen.push_back(t.writes ? ++of_value[k] : of_value[k]);
        list.push_back(std::move(seen));
      }
    }
  }

  static std::pair<int32_t, int32_t> pieces(const Chunk& c) {
    return {c.index * kPieces / c.count, (c.index + 1) * kPieces / c.count};
  }
  // The versions of the pieces that touch number `t` of op `i` reads or writes.
  const std::vector<int64_t>& versions(size_t i, size_t t) const { return versions_[i][t]; }

 private:
  std::map<ValueId, std::vector<int64_t>> now_;
  std::vector<std::vector<std::vector<int64_t>>> versions_;
};

class SegmentMachine {
 public:
  // `names` has the number of each op in the list that `flow` is made from.
  SegmentMachine(const std::vector<Op>& ops, ValueSpan values, const DataFlow& flow,
                 std::vector<size_t> names, uint64_t seed)
      : ops_(ops), values_(values), flow_(flow), names_(std::move(names)), random_(seed) {}

  // Runs all ops once. Returns how many reads found other bytes than those meant.
  int64_t run() {
    std::map<Queue, std::vector<size_t>> queues;
    for (size_t i = 0; i < ops_.size(); ++i)
      queues[queue_of(ops_[i], Queue::kCompute)].push_back(i);
    std::map<Queue, size_t> next;
    started_.assign(ops_.size(), false);
    over_.assign(ops_.size(), false);
    while (true) {
      std::vector<std::pair<size_t, bool>> moves;  // op, and whether it starts
      for (const auto& [queue, list] : queues) {
        const size_t at = next[queue];
        if (at == list.size()) continue;
        const size_t i = list[at];
        if (started_[i])
          moves.emplace_back(i, false);
        else if (may_start(i))
          moves.emplace_back(i, true);
      }
      if (moves.empty()) break;
      const auto [i, starts] =
          moves[std::uniform_int_distribution<size_t>(0, moves.size() - 1)(random_)];
      if (starts) {
        start(i);
      } else {
        end(i);
        ++next[queue_of(ops_[i], Queue::kCompute)];
      }
    }
    if (std::count(over_.begin(), over_.end(), true) != std::ssize(over_)) ++wrong_;  // a cycle
    return wrong_;
  }

 private:
  static constexpr int64_t kCell = 16;  // bytes
  struct Mark {
    ValueId value;
    int32_t piece = 0;
    int64_t version = 0;
    int64_t writer = -1;  // the op that is about to write, until it ends
    bool operator==(const Mark&) const = default;
  };

  bool may_start(size_t i) const {
    return std::all_of(ops_[i].after.begin(), ops_[i].after.end(),
                       [&](int32_t j) { return over_[static_cast<size_t>(j)]; });
  }

  // visit(cell, piece, number of the piece among those touched)
  template <class F>
  void each_cell(const OperandUse& t, const F& visit) {
    const Value& v = values_[t.value];
    auto& memory = memory_[v.buffer];
    const int64_t piece_bytes = v.bytes() / DataFlow::kPieces;
    CHECK(piece_bytes % kCell == 0, "{} has {} bytes", v.name, v.bytes());
    const auto [first, last] = DataFlow::pieces(t.chunk);
    for (int32_t k = first; k < last; ++k)
      for (int64_t b = 0; b < piece_bytes; b += kCell) {
        const auto at = static_cast<size_t>((v.offset + k * piece_bytes + b) / kCell);
        if (memory.size() <= at) memory.resize(at + 1);
        visit(memory[at], k, static_cast<size_t>(k - first));
      }
  }

  void check_reads(size_t i, bool at_end) {
    const std::vector<OperandUse> touches = uses_of(ops_[i], values_);
    for (size_t t = 0; t < touches.size(); ++t) {
      if (touches[t].writes) continue;
      each_cell(touches[t], [&](Mark& m, int32_t piece, size_t n) {
        const int64_t version = flow_.versions(names_[i], t)[n];
        if (version == 0 && m == Mark()) m = {touches[t].value, piece, 0, -1};  // was there before
        const bool own = m.writer == static_cast<int64_t>(i);
        if (at_end && own) return;  // in place
        wrong_ += own ? 0 : m != Mark{touches[t].value, piece, version, -1};
      });
    }
  }

  void start(size_t i) {
    started_[i] = true;
    check_reads(i, false);
    for (const OperandUse& t : uses_of(ops_[i], values_))
      if (t.writes)
        each_cell(t, [&](Mark& m, int32_t, size_t) {
          m = {t.value, 0, 0, static_cast<int64_t>(i)};
        });
  }

  void end(size_t i) {
    check_reads(i, true);
    const std::vector<OperandUse> touches = uses_of(ops_[i], values_);
    for (size_t t = 0; t < touches.size(); ++t)
      if (touches[t].writes)
        each_cell(touches[t], [&](Mark& m, int32_t piece, size_t n) {
          wrong_ += m.writer != static_cast<int64_t>(i);
          m = {touches[t].value, piece, flow_.versions(names_[i], t)[n], -1};
        });
    over_[i] = true;
  }

  const std::vector<Op>& ops_;
  ValueSpan values_;
  const DataFlow& flow_;
  std::vector<size_t> names_;
  std::mt19937_64 random_;
  std::vector<bool> started_, over_;
  std::map<BufferKindId, std::vector<Mark>> memory_;
  int64_t wrong_ = 0;
};

}  // namespace tessera::testing
