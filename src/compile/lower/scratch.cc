#include "compile/lower/scratch.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ir/rule.h"

namespace tessera {
namespace {

struct Life {
  ValueId value = kNone;
  int first = 0, last = 0;
  int64_t bytes = 0, offset = kNone;
};

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

template <class Visit>
void each_value(const Op& op, Visit visit) {
  for (const ValueId v : op.inputs) visit(v);
  for (const ValueId v : op.outputs) visit(v);
  if (op.workspace != kNone) visit(op.workspace);
}

// Last reader of every value in the segment.
std::map<ValueId, int> last_uses(const Segment& s) {
  std::map<ValueId, int> last;
  for (size_t i = 0; i < s.ops.size(); ++i)
    each_value(s.ops[i], [&](ValueId v) { last[v] = static_cast<int>(i); });
  return last;
}

// value → the value whose bytes it uses. Walks backwards, so chains of in-place ops follow.
std::map<ValueId, ValueId> share(const Program& p, const Segment& s) {
  const std::map<ValueId, int> last = last_uses(s);
  std::map<ValueId, ValueId> root;
  for (size_t i = s.ops.size(); i-- > 0;) {
    const Op& op = s.ops[i];
    const InPlace k = in_place_of(op);
    if (k.input < 0) continue;
    const ValueId in = op.inputs[static_cast<size_t>(k.input)];
    const ValueId out = op.outputs[static_cast<size_t>(k.output)];
    const bool once = std::count(op.inputs.begin(), op.inputs.end(), in) == 1;
    const bool same = p[in].bytes() == p[out].bytes() && p[in].dtype == p[out].dtype;
    if (p[in].frame != kNone || !once || !same || last.at(in) != static_cast<int>(i)) continue;
    root[in] = root.contains(out) ? root[out] : out;
  }
  return root;
}

// First fit by falling size: lives that overlap in time do not overlap in bytes.
int64_t pack(std::vector<Life>& lives) {
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  int64_t total = 0;
  for (size_t i = 0; i < lives.size(); ++i) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t j = 0; j < i; ++j)
      if (lives[j].first <= lives[i].last && lives[i].first <= lives[j].last)
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
  const std::map<ValueId, ValueId> root = share(p, s);
  const auto bytes_of = [&](ValueId v) { return root.contains(v) ? root.at(v) : v; };
  std::map<ValueId, Life> lives;
  for (size_t i = 0; i < s.ops.size(); ++i)
    each_value(s.ops[i], [&](ValueId v) {
      const ValueId r = bytes_of(v);
      if (p[r].frame != kNone) return;
      const auto at = static_cast<int>(i);
      Life& life =
          lives.try_emplace(r, Life{r, at, at, align(p[r].bytes(), alignment), 0}).first->second;
      life.last = at;
    });
  std::vector<Life> list;
  for (const auto& [v, life] : lives) list.push_back(life);
  s.scratch_bytes = pack(list);
  for (const Life& life : list) p.values[life.value].offset = life.offset;
  for (const auto& [v, r] : root) {
    p.values[v].frame = p[r].frame;
    p.values[v].offset = p[r].offset;
  }
}

}  // namespace tessera
