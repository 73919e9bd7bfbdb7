// Finds the waits between the ops of different queues, and the offsets of values in the scratch of
// a segment.
//
// Waits: for each op, the ops before it are visited from the latest to the first, and per queue the
// latest one in conflict counts, since the queue itself orders those before that. A wait that
// follows from earlier waits is omitted: a vector clock per op holds the last op of each queue that
// is known to be complete. O(n²) for n ops, and only for segments that have inner queues.
//
// Offsets: values are placed from the largest to the smallest, each at the lowest offset that no
// value with an overlapping lifetime occupies. Lifetimes are intervals per queue, so "before" is
// again decided by the clocks.
#include "compile/lower/scratch.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "ir/chunk.h"
#include "ir/op_order.h"
#include "ir/rule.h"

namespace tessera::compile {
namespace {

bool in_conflict(const std::vector<OperandUse>& a, const std::vector<OperandUse>& b,
                 ValueSpan values) {
  return std::any_of(a.begin(), a.end(), [&](const OperandUse& x) {
    return std::any_of(b.begin(), b.end(),
                       [&](const OperandUse& y) { return tessera::in_conflict(x, y, values); });
  });
}

}  // namespace

void find_op_waits(std::vector<Op>& ops, ValueSpan values) {
  for (Op& op : ops) op.after.clear();
  if (!uses_inner_queues(ops)) return;
  OpClocks clocks;
  std::vector<std::vector<OperandUse>> touches;
  for (int32_t i = 0; i < std::ssize(ops); ++i) {
    const Queue own = queue_of(ops[i], Queue::kCompute);
    clocks.add(own);
    touches.push_back(uses_of(ops[i], values));
    EnumArray<Queue, bool> found;
    found[own] = true;
    for (int32_t j = i; j-- > 0;) {
      bool& of_queue = found[queue_of(ops[j], Queue::kCompute)];
      if (of_queue || !in_conflict(touches[i], touches[j], values)) continue;
      of_queue = true;
      if (clocks.is_before(j, i)) continue;
      clocks.wait_for(j);
      ops[i].after.push_back(j);
    }
    std::reverse(ops[i].after.begin(), ops[i].after.end());
  }
}

namespace {

// The first and the last op of a queue that use a value.
struct Touched {
  Queue queue = Queue::kCompute;
  int32_t first = 0, last = 0;
};
struct Lifetime {
  ValueId value = kNone;
  std::vector<Touched> touched = {};
  int64_t bytes = 0, offset = kNone;
};

// Returns true if every op that uses `a` is complete before any op that uses `b` starts.
bool is_before(const Lifetime& a, const Lifetime& b, const OpClocks& clocks) {
  return std::all_of(a.touched.begin(), a.touched.end(), [&](const Touched& x) {
    return std::all_of(b.touched.begin(), b.touched.end(),
                       [&](const Touched& y) { return clocks.is_before(x.last, y.first); });
  });
}

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

template <class Visit>
void each_value(const Op& op, Visit visit) {
  for (const ValueId v : op.inputs) visit(v);
  for (const ValueId v : op.outputs) visit(v);
  if (op.workspace != kNone) visit(op.workspace);
}

// Returns the ops that use each value of the segment.
std::map<ValueId, std::vector<int32_t>> ops_by_value(const Segment& s) {
  std::map<ValueId, std::vector<int32_t>> ops;
  for (int32_t i = 0; i < std::ssize(s.ops); ++i)
    each_value(s.ops[i], [&](ValueId v) { ops[v].push_back(i); });
  return ops;
}

// Maps a value to the value whose bytes it uses. Walks backwards, which resolves chains of in-place
// ops.
std::map<ValueId, ValueId> share(const Program& p, const Segment& s, const OpClocks& clocks) {
  const std::map<ValueId, std::vector<int32_t>> touching = ops_by_value(s);
  std::map<ValueId, ValueId> root;
  for (size_t i = s.ops.size(); i-- > 0;) {
    const Op& op = s.ops[i];
    const InPlace k = in_place_of(op);
    if (k.input < 0 || !op.chunk.is_whole()) continue;
    const ValueId in = op.inputs[k.input];
    const ValueId out = op.outputs[k.output];
    const bool once = std::count(op.inputs.begin(), op.inputs.end(), in) == 1;
    const bool same = p[in].bytes() == p[out].bytes() && p[in].dtype == p[out].dtype;
    const auto at = static_cast<int32_t>(i);
    const std::vector<int32_t>& others = touching.at(in);
    const bool last = std::all_of(others.begin(), others.end(),
                                  [&](int32_t j) { return j == at || clocks.is_before(j, at); });
    if (p[in].buffer != kNone || !once || !same || !last) continue;
    root[in] = root.contains(out) ? root[out] : out;
  }
  return root;
}

// First fit by decreasing size: lifetimes that may overlap in time do not overlap in bytes.
int64_t pack(std::vector<Lifetime>& lives, const OpClocks& clocks) {
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
  int64_t total = 0;
  for (size_t i = 0; i < lives.size(); ++i) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t j = 0; j < i; ++j)
      if (!is_before(lives[j], lives[i], clocks) && !is_before(lives[i], lives[j], clocks))
        taken.emplace_back(lives[j].offset, lives[j].offset + lives[j].bytes);
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [from, to] : taken) {
      if (from - at >= lives[i].bytes) break;
      at = std::max(at, to);
    }
    lives[i].offset = at;
    total = std::max(total, at + lives[i].bytes);
  }
  return total;
}

}  // namespace

void layout_scratch(Program& p, Segment& s, int64_t alignment) {
  const OpClocks clocks(s.ops);
  const std::map<ValueId, ValueId> root = share(p, s, clocks);
  const auto bytes_of = [&](ValueId v) { return root.contains(v) ? root.at(v) : v; };
  std::map<ValueId, Lifetime> lives;
  for (size_t i = 0; i < s.ops.size(); ++i)
    each_value(s.ops[i], [&](ValueId v) {
      const ValueId r = bytes_of(v);
      if (p[r].buffer != kNone) return;
      const auto at = static_cast<int32_t>(i);
      Lifetime& life = lives[r];
      life.value = r;
      life.bytes = align(p[r].bytes(), alignment);
      const Queue queue = queue_of(s.ops[i], Queue::kCompute);
      const auto known = std::find_if(life.touched.begin(), life.touched.end(),
                                      [&](const Touched& t) { return t.queue == queue; });
      if (known == life.touched.end())
        life.touched.push_back({queue, at, at});
      else
        known->last = at;
    });
  std::vector<Lifetime> list;
  for (const auto& [v, life] : lives) list.push_back(life);
  s.scratch_bytes = pack(list, clocks);
  for (const Lifetime& life : list) p.values[life.value].offset = life.offset;
  for (const auto& [v, r] : root) {
    p.values[v].buffer = p[r].buffer;
    p.values[v].offset = p[r].offset;
  }
}

}  // namespace tessera::compile
