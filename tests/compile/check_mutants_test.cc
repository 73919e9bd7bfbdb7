// One rank's program of a small mesh is changed; the check of all ranks must find it.
//
// What cannot matter, by rule: a call may be on the other side of a neighbor
//   - of another queue, where neither waits for the other: no queue and no wait changes;
//   - of its own queue, where neither communicates and they conflict on no buffer, or both only add
//     to it and neither begins it.
// And a call that computes nothing (release_sent: what it names lives until it) may be missing or
// stand twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "compile/check/check.h"
#include "compile/compile.h"
#include "compile/memory/assign_buffers.h"
#include "ir/verify.h"
#include "tests/compile/random_layout.h"

namespace tessera::compile {
namespace {

using testing::each_rank;
using testing::LayoutDraw;

struct Mutant {
  Program program;
  std::string what;
  bool harmless = false;  // by the rules above
};

Call& call(Program& p, CallId c) { return p.schedule[c]; }
CallId later(CallId c, int64_t by) { return CallId(c.number() + by); }

// The same waits under the calls' new numbers; kNone for a call that is gone.
void renumber(Program& p, const IdVector<CallId, CallId>& now) {
  for (Call& c : p.schedule)
    for (std::vector<CallId>* waits : {&c.after, &c.before_step}) {
      for (CallId& y : *waits) y = now[y];
      std::erase(*waits, kNone);
    }
}

IdVector<CallId, CallId> same_numbers(const Program& p) {
  IdVector<CallId, CallId> now;
  for (const CallId c : p.schedule.ids()) now.push_back(c);
  return now;
}

bool waits(const Call& a, CallId for_b) {
  return std::count(a.after.begin(), a.after.end(), for_b) > 0;
}

bool commute(const Program& p, CallId x, CallId y) {
  const Call &a = p.call(x), &b = p.call(y);
  const Segment &s = p.segment(a), &t = p.segment(b);
  if (s.queue != t.queue) return !waits(a, y) && !waits(b, x);
  if (a.comm != CommSpec{} && b.comm != CommSpec{}) return false;
  for (size_t i = 0; i < a.buffers.size(); ++i)
    for (size_t j = 0; j < b.buffers.size(); ++j) {
      if (a.buffers[i] != b.buffers[j]) continue;
      const Access m = s.buffers[i].access, n = t.buffers[j].access;
      const bool read = m == Access::kRead && n == Access::kRead;
      const bool add =
          m == Access::kAdd && n == Access::kAdd && !a.first_write[i] && !b.first_write[j];
      if (!read && !add) return false;
    }
  return true;
}

// Makes mutants of one program; nothing where this kind of change is not possible there.
class Mutator {
 public:
  Mutator(const Program& p, LayoutDraw& draw) : p_(p), draw_(draw) {}

  std::optional<Mutant> make(int64_t kind) {
    m_ = {p_, "", false};
    c_ = CallId(draw_.number(0, size() - 1));
    constexpr bool (Mutator::*kKinds[])() = {
        &Mutator::drop,   &Mutator::twice,      &Mutator::move,      &Mutator::resize,
        &Mutator::group,  &Mutator::lost_after, &Mutator::lost_step, &Mutator::first_write,
        &Mutator::buffer, &Mutator::label,      &Mutator::shrink};
    static_assert(std::size(kKinds) == kKindCount);
    if (!(this->*kKinds[kind])()) return std::nullopt;
    m_.what += " " + call_name(p_, c_);
    return std::move(m_);
  }

  static constexpr int64_t kKindCount = 11;

 private:
  int64_t size() const { return static_cast<int64_t>(p_.schedule.size()); }
  const Call& call_at() const { return p_.call(c_); }

  bool drop() {
    m_.what = "drop";
    m_.harmless = p_.segment(call_at()).ops.empty();
    IdVector<CallId, CallId> now = same_numbers(p_);
    for (CallId& n : now) n = n == c_ ? CallId() : later(n, -(n > c_));
    m_.program.schedule.erase(m_.program.schedule.begin() + c_.number());
    renumber(m_.program, now);
    return true;
  }

  bool twice() {
    m_.what = "twice";
    m_.harmless = p_.segment(call_at()).ops.empty();
    IdVector<CallId, CallId> now = same_numbers(p_);
    for (CallId& n : now) n = later(n, n > c_);
    renumber(m_.program, now);
    const Call copy = m_.program.call(c_);
    m_.program.schedule.insert(m_.program.schedule.begin() + c_.number() + 1, copy);
    return true;
  }

  // Later by one to six calls.
  bool move() {
    const CallId to(std::min(size() - 1, c_.number() + draw_.number(1, 6)));
    if (to == c_) return false;
    m_.what = fmt::format("move by {}", to.number() - c_.number());
    m_.harmless = true;
    IdVector<CallId, CallId> now = same_numbers(p_);
    for (CallId y = later(c_, 1); y <= to; y = later(y, 1)) {
      m_.harmless = m_.harmless && commute(p_, c_, y);
      now[y] = later(now[y], -1);
    }
    now[c_] = to;
    auto& calls = m_.program.schedule;
    std::rotate(calls.begin() + c_.number(), calls.begin() + c_.number() + 1,
                calls.begin() + to.number() + 1);
    renumber(m_.program, now);
    return true;
  }

  bool resize() {
    if (!find([](const Call& c) { return c.comm.kind != CommKind::kSilent; })) return false;
    m_.what = "resize";
    call(m_.program, c_).comm.bytes += 64;
    return true;
  }

  // Ops and facts alike: the program is sound, but for its partners.
  bool group() {
    if (!find([](const Call& c) {
          return c.comm.over.kind != GroupRef::Kind::kStages && !c.comm.over.empty();
        }))
      return false;
    const GroupRef old = p_.call(c_).comm.over;
    const auto along = [](std::initializer_list<AxisKind> axes) { return GroupRef::along(axes); };
    std::vector<GroupRef> others = {
        along({AxisKind::kTensor}), along({AxisKind::kShard}), along({AxisKind::kReplica}),
        along({AxisKind::kReplica, AxisKind::kTensor}), GroupRef::world()};
    std::erase_if(others, [&](const GroupRef& o) {
      return group_size(p_.mesh, o) == 1 ||
             group_of(p_.mesh, o, rank_here()) == group_of(p_.mesh, old, rank_here());
    });
    if (others.empty()) return false;
    const GroupRef other = draw_.one_of(others);
    m_.what = "over " + to_string(other);
    const SegmentId s = p_.call(c_).segment;
    for (Op& op : m_.program.segments[s].ops)
      if (GroupRef* const over = over_of(op.attributes); over != nullptr && *over == old)
        *over = other;
    for (Call& c : m_.program.schedule)
      if (c.segment == s) c.comm.over = other;
    return true;
  }

  bool lost_after() { return lost(&Call::after, "lost after of"); }
  bool lost_step() { return lost(&Call::before_step, "lost before_step of"); }
  bool lost(std::vector<CallId> Call::*waits, const char* what) {
    if (!find([&](const Call& c) { return !(c.*waits).empty(); })) return false;
    m_.what = what;
    auto& list = call(m_.program, c_).*waits;
    list.erase(list.begin() + draw_.number(0, static_cast<int64_t>(list.size()) - 1));
    return true;
  }

  bool first_write() {
    const auto some = [](const Call& c) {
      return std::count(c.first_write.begin(), c.first_write.end(), true) > 0;
    };
    if (!find(some)) return false;
    m_.what = "lost first_write of";
    std::vector<bool>& list = call(m_.program, c_).first_write;
    std::vector<size_t> set;
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i]) set.push_back(i);
    list[draw_.one_of(set)] = false;
    return true;
  }

  bool buffer() {
    Call& c = call(m_.program, c_);
    if (c.buffers.empty()) return false;
    BufferId& mine =
        c.buffers[static_cast<size_t>(draw_.number(0, static_cast<int64_t>(c.buffers.size()) - 1))];
    std::vector<BufferId> others;
    for (const BufferId f : p_.buffers.ids())
      if (p_.buffer(f).offset != p_.buffer(mine).offset &&
          p_.buffer(f).kind == p_.buffer(mine).kind)
        others.push_back(f);
    if (others.empty()) return false;
    const BufferId other = draw_.one_of(others);
    m_.what = fmt::format("{} for {} in", buffer_name(p_, other), buffer_name(p_, mine));
    mine = other;
    return true;
  }

  bool label() {
    Call& c = call(m_.program, c_);
    if (c.microbatch == kNone || c.buffers.empty()) return false;
    m_.what = "next micro-batch's label on";
    ++c.microbatch;
    return true;
  }

  bool shrink() {
    auto& kinds = m_.program.kinds;
    const BufferKindId k(draw_.number(0, static_cast<int64_t>(kinds.size()) - 1));
    int64_t end = 0;
    for (const ValueId v : kinds[k].values) end = std::max(end, p_[v].offset + p_[v].bytes());
    if (end <= 4) return false;
    kinds[k].bytes = end - 4;
    m_.what = "shrunk " + kinds[k].name + " at";
    return std::any_of(p_.segments.begin(), p_.segments.end(), [&](const Segment& s) {
      return std::any_of(s.buffers.begin(), s.buffers.end(),
                         [&](const Parameter& x) { return x.kind == k; });
    });
  }

  int64_t rank_here() const {
    Coordinates at;
    at[AxisKind::kPipeline] = p_.stage;
    return rank_of(p_.mesh, at);
  }

  // The next call, from the one drawn on, with this property.
  template <class Property>
  bool find(const Property& has) {
    for (int64_t i = 0; i < size(); ++i, c_ = CallId((c_.number() + 1) % size()))
      if (has(p_.call(c_))) return true;
    return false;
  }

  const Program& p_;
  LayoutDraw& draw_;
  Mutant m_;
  CallId c_{0};
};

std::string found_in(std::vector<const Program*> ranks, size_t rank, const Program& mutant) {
  const std::vector<std::string> faults = tessera::verify(mutant);
  if (!faults.empty()) return "verify: " + faults[0];
  ranks[rank] = &mutant;
  const std::vector<Finding> findings = check(ranks);
  return findings.empty() ? "" : findings[0].kind + ": " + findings[0].text;
}

// So many mutants of random ranks; how many the rules call harmless.
struct Count {
  int mutants = 0, harmless = 0;
};

Count expect_caught(const CompileRequest& r, int mutants, LayoutDraw& draw) {
  SCOPED_TRACE(testing::text_of(r));
  Count count;
  const std::vector<Program> stages = compile_stages(r, {});
  const std::vector<const Program*> ranks = each_rank(stages);
  for (int i = 0; i < mutants; ++i) {
    const auto rank = static_cast<size_t>(draw.number(0, static_cast<int64_t>(ranks.size()) - 1));
    const auto mutant = Mutator(*ranks[rank], draw).make(i % Mutator::kKindCount);
    if (!mutant) continue;
    ++count.mutants;
    count.harmless += mutant->harmless;
    const std::string found = found_in(ranks, rank, mutant->program);
    EXPECT_TRUE(mutant->harmless || !found.empty()) << "rank " << rank << ": " << mutant->what;
  }
  return count;
}

// Interleaved, ZeRO 3, hybrid: two groups of two data ranks.
CompileRequest interleaved_hybrid() {
  LayoutDraw draw(1);
  CompileRequest r = draw.request(16);
  model::apply_family(model::Family::kGpt2, r.model);
  r.model.layers = 4;
  r.model.tied_embeddings = true;
  model::derive_sizes(r.model);
  r.microbatches = 4;
  r.layout = Layout();
  r.layout.data = 4;
  r.layout.pipeline = 2;
  r.layout.interleave = 2;
  r.layout.pipeline_schedule = PipelineSchedule::kInterleaved1F1B;
  r.layout.zero = 3;
  r.layout.zero_group = 2;
  return r;
}

TEST(CheckMutants, OfAnInterleavedHybridZero3AreCaught) {
  LayoutDraw draw(50);
  const Count n = expect_caught(interleaved_hybrid(), 220, draw);
  EXPECT_GT(n.mutants, 180);
  EXPECT_LT(n.harmless, n.mutants / 10);
}

TEST(CheckMutants, OfRandomLayoutsAreCaught) {
  LayoutDraw draw(51);
  Count all;
  for (int i = 0; i < 24; ++i) {
    const Count n = expect_caught(draw.request(8), 22, draw);
    all.mutants += n.mutants;
    all.harmless += n.harmless;
  }
  EXPECT_GT(all.mutants, 350);
  EXPECT_LT(all.harmless, all.mutants / 10);
}

// Fetches, updates and copies back, with every optimizer.
TEST(CheckMutants, OfStateOnTheHostAreCaught) {
  LayoutDraw draw(53);
  Count all;
  for (int i = 0; i < 16; ++i) {
    CompileRequest r = draw.request(8);
    r.layout.offload = i % 3 == 0 ? "activations+optimizer" : "optimizer";
    r.optimizer.kind = static_cast<OptimizerKind>(i % 4);
    LayoutDraw changes(static_cast<uint64_t>(i));
    const Count n = expect_caught(r, 60, changes);
    all.mutants += n.mutants;
    all.harmless += n.harmless;
  }
  EXPECT_GT(all.mutants, 350);
  EXPECT_LT(all.harmless, all.mutants / 10);
}

// The same change on every rank of a stage: partners agree, and only the meaning is wrong.
TEST(CheckMutants, ACollectiveMissingOnAllRanksIsCaught) {
  LayoutDraw draw(52);
  int dropped = 0;
  for (int i = 0; i < 12; ++i) {
    CompileRequest r = draw.request(8);
    r.layout.pipeline = 1;
    r.layout.interleave = 1;
    r.layout.stages.clear();
    r.layout.data = 2 + 2 * (i % 2);
    r.layout.expert = std::gcd(r.layout.expert, r.layout.data);
    if (i % 3 < 2) {
      r.optimizer.kind = i % 3 == 0 ? OptimizerKind::kAdafactor : OptimizerKind::kMuon;
      r.model.kv_heads = r.model.heads;  // these do not support copies of heads
      const bool clips = r.optimizer.kind == OptimizerKind::kMuon && draw.can_clip(r);
      r.optimizer.qk_clip = clips ? 100 : 0;
    }
    SCOPED_TRACE(testing::text_of(r));
    const std::vector<Program> stages = compile_stages(r, {});
    const Program& p = stages[0];
    for (const CallId c : p.schedule.ids()) {
      const CommKind kind = p.call(c).comm.kind;
      if (kind == CommKind::kSilent || kind == CommKind::kSegment) continue;
      Program mutant = p;
      IdVector<CallId, CallId> now = same_numbers(p);
      for (CallId& n : now) n = n == c ? CallId() : later(n, -(n > c));
      mutant.schedule.erase(mutant.schedule.begin() + c.number());
      renumber(mutant, now);
      assign_buffers(mutant, {});
      EXPECT_FALSE(prove({mutant}).empty()) << "without " << call_name(p, c);
      ++dropped;
    }
  }
  EXPECT_GT(dropped, 100);
}

}  // namespace
}  // namespace tessera::compile
