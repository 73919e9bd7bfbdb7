// Verifies queues, waits and chunks of the ops of a segment, and that no two ops race for bytes.
//
// A segment's ops are in one list and run on several queues. Each op carries the ops of other
// queues that it waits for; order within a queue is that of the list. So "happens before" is the
// transitive closure of both, computed by vector clocks (op_order.h). A race is a pair of ops that
// access the same bytes, at least one writing, and neither happens before the other. The pass
// that sets the waits uses the same clocks; this check uses nothing else of it.
//
// A value that several ops compute in chunks must be complete: all of them use one number of
// chunks, and each chunk is computed once before an op reads sequences that overlap it.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/chunk.h"
#include "ir/names.h"
#include "ir/op_order.h"
#include "ir/rule.h"
#include "ir/verify.h"

namespace tessera {
namespace {

using Findings = std::vector<std::string>;

// Returns true if all members of the group are on one stage, and so run the same list of ops.
bool is_within_stage(const GroupRef& group) {
  return group.kind == GroupRef::Kind::kAxes && !group.has(AxisKind::kPipeline);
}

bool may_be_inner(const Op& op) {
  if (communicates(op)) return !is_message(op) && is_within_stage(*over_of(op.attributes));
  return op.is<Copy>() || op.is<Cast>() || op.is<Clear>();
}

class QueueVerifier {
 public:
  QueueVerifier(const Program& p, const Segment& s) : p_(p), s_(s) {}

  Findings run() {
    for (const Op& op : s_.ops) {
      verify_queue(op);
      verify_waits(op);
      if (!op.chunk.is_whole() && !is_divisible(op)) continue;
      for (const OperandUse& t : uses_of(op, p_.values)) {
        if (t.writes)
          make(op, t);
        else
          read(op, t);
      }
    }
    for (const auto& [v, chunks] : made_)
      if (std::count(chunks.begin(), chunks.end(), true) != std::ssize(chunks))
        add_finding(s_.name(), "makes some but not all chunks of {}", p_[v].name);
    return std::move(findings_);
  }

 private:
  template <class... A>
  void add_finding(const std::string& where, fmt::format_string<A...> format, A&&... a) {
    findings_.push_back(where + ": " + fmt::format(format, std::forward<A>(a)...));
  }

  void verify_queue(const Op& op) {
    if (!is_inner(op.queue)) return;
    if (s_.queue != Queue::kCompute)
      add_finding(op_name(op, s_.name()), "is on queue {}, but its segment is on {}",
                  name_of(op.queue), name_of(s_.queue));
    else if (!may_be_inner(op))
      add_finding(op_name(op, s_.name()),
                  "is on queue {}; expected a collective within a stage, or a copy",
                  name_of(op.queue));
  }

  void verify_waits(const Op& op) {
    for (const int32_t j : op.after)
      if (queue_of(s_.ops[j], s_.queue) == queue_of(op, s_.queue))
        add_finding(op_name(op, s_.name()), "waits for op {}, which is on its own queue", j);
  }

  // Verifies that the number of chunks divides the sequences of every operand that is divided.
  bool is_divisible(const Op& op) {
    const auto chunked = chunked_operands(op, p_.values);
    bool good = chunked.has_value();
    const auto divides = [&](ValueId v) {
      const Shape& local = p_[v].local();
      return local.rank() > 0 && local[0] % op.chunk.count == 0;
    };
    for (size_t i = 0; good && i < op.inputs.size(); ++i)
      good = !chunked->inputs[i] || divides(op.inputs[i]);
    for (size_t i = 0; good && i < op.outputs.size(); ++i) good = divides(op.outputs[i]);
    if (!good)
      add_finding(op_name(op, s_.name()), "cannot be divided into {} chunks", op.chunk.count);
    return good;
  }

  // Marks the chunks of a value that ops compute: all ops use the same number of chunks, and
  // compute each once.
  void make(const Op& op, const OperandUse& t) {
    if (op.chunk.is_whole() || t.value == op.workspace) return;
    std::vector<bool>& chunks = made_[t.value];
    if (chunks.empty()) chunks.resize(t.chunk.count);
    const int32_t at = t.chunk.index;
    if (std::ssize(chunks) != t.chunk.count)
      add_finding(op_name(op, s_.name()), "computes {} in {} chunks, but an earlier op uses {}",
                  p_[t.value].name, t.chunk.count, chunks.size());
    else if (chunks[at])
      add_finding(op_name(op, s_.name()), "computes chunk {} of {} a second time", at,
                  p_[t.value].name);
    else
      chunks[at] = true;
  }

  // A read of some sequences needs every chunk that overlaps them; chunks of reader and writer may
  // have different sizes.
  void read(const Op& op, const OperandUse& t) {
    const auto made = made_.find(t.value);
    if (made == made_.end()) return;
    const auto count = static_cast<int32_t>(made->second.size());
    for (int32_t k = 0; k < count; ++k)
      if (!made->second[k] && t.chunk.overlaps({k, count}))
        add_finding(op_name(op, s_.name()), "reads chunk {} of {}, which nothing before it made", k,
                    p_[t.value].name);
  }

  const Program& p_;
  const Segment& s_;
  std::map<ValueId, std::vector<bool>> made_;  // the chunks of each value that is computed in
                                               // chunks
  Findings findings_;
};

// Returns for each op the ops that are complete when it starts: the previous op on its queue, those
// that it waits for, and all that are complete when these start.
std::vector<std::vector<bool>> ops_before(const Segment& s) {
  const size_t n = s.ops.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  std::map<Queue, size_t> last;
  for (size_t i = 0; i < n; ++i) {
    const auto follow = [&](size_t j) {
      before[i][j] = true;
      for (size_t k = 0; k < j; ++k)
        if (before[j][k]) before[i][k] = true;
    };
    const auto [at, first] = last.try_emplace(queue_of(s.ops[i], s.queue), i);
    if (!first) follow(at->second);
    at->second = i;
    for (const int32_t j : s.ops[i].after) follow(j);
  }
  return before;
}

}  // namespace

Findings verify_queues(const Program& p) {
  Findings findings;
  for (const Segment& s : p.segments)
    for (std::string& finding : QueueVerifier(p, s).run()) findings.push_back(std::move(finding));
  return findings;
}

// Ops on different queues may run at the same time unless waits order them. Every unordered pair is
// compared, byte range by byte range. Quadratic in the number of ops of a segment, which is a few
// hundred.
Findings verify_races(const Program& p, const Segment& s) {
  Findings findings;
  if (!uses_inner_queues(s.ops)) return findings;
  const std::vector<std::vector<bool>> before = ops_before(s);
  std::vector<std::vector<TouchedBytes>> bytes;
  for (const Op& op : s.ops) bytes.push_back(touched_bytes(op, p.values));
  for (size_t j = 0; j < s.ops.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      if (before[j][i]) continue;
      for (const TouchedBytes& a : bytes[i])
        for (const TouchedBytes& b : bytes[j])
          if (in_conflict(a, b))
            findings.push_back(fmt::format(
                "{} and {} use the same bytes ({} and {}), but neither waits for the other",
                op_name(s.ops[i], s.name()), op_name(s.ops[j], s.name()), p[a.value].name,
                p[b.value].name));
    }
  return findings;
}

}  // namespace tessera
