#include "runtime/host_executor.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "tensor/cpu_features.h"
#include "tests/comm/ranks.h"
#include "tests/runtime/small_program.h"

namespace tessera::testing {
namespace {

using Op = tessera::Op;
constexpr int64_t kElements = 39'996,  // divides by 1, 2, 3, 4
    kLayers = 5, kSteps = 3;

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// A run of one program on this rank.
struct Execution {
  Execution(SmallProgram&& small, comm::World& world, bool poison = false)
      : kernels(read_cpu_features(), 1),
        program(small.finish(kernels.target())),
        communicators(world, {program}),
        arena(host_arena("arena", program.bytes)),
        bound(program, {*arena}, kernels, communicators),
        executor(bound, hooks, poison) {}

  TensorView view(const std::string& name) {
    for (const ValueId v : bound.program().values.ids())
      if (bound.program()[v].name == name) return bound.view(v);
    ADD_FAILURE() << "no value " << name;
    return {};
  }
  std::vector<float> floats(const char* name) {
    const TensorView v = view(name);
    return {v.f32(), v.f32() + v.elements()};
  }
  void fill(const char* name, double key) {
    const TensorView v = view(name);
    for (int64_t i = 0; i < v.elements(); ++i)
      v.f32()[i] = static_cast<float>(std::sin(key + 0.37 * static_cast<double>(i)));
  }

  runtime::PreparedKernels kernels;
  Program program;
  runtime::CommunicatorMap communicators;
  std::unique_ptr<Arena> arena;
  runtime::RunHooks hooks = {.now_s = seconds};
  runtime::BoundProgram bound;
  runtime::HostExecutor executor;
};

Mesh mesh_of(AxisKind axis) {
  Mesh m;
  m[axis] = ranks().size();
  return m;
}
Coordinates own(const Mesh& m) { return coordinates_of(m, ranks().rank()); }

struct ShardedOptions {
  bool ordered = false;  // every transfer is waited for at once
  int64_t lag = 1;       // layers a reduction may take
};

// Layers whose weights lie in shards: each is gathered, added to the stream, and has a gradient
// (twice the stream) that is reduced to the shard of it, where two micro-batches add up.
SmallProgram sharded(const ShardedOptions& o) {
  const Mesh mesh = mesh_of(AxisKind::kShard);
  SmallProgram p("sharded", mesh, own(mesh));
  const Shape whole{kElements};
  std::vector<ValueId> shard, gradient;
  for (int64_t l = 0; l < kLayers; ++l) {
    const std::string n = std::to_string(l);
    shard.push_back(p.value("shard" + n, whole, Role::kWeight, true, AxisKind::kShard));
    gradient.push_back(p.value("gradient" + n, whole, Role::kGradient, false, AxisKind::kShard));
  }
  const ValueId stream = p.value("stream", whole, Role::kHidden, true);
  const ValueId gathered = p.value("gathered", whole, Role::kWeight);
  const ValueId partial = p.value("partial", whole, Role::kGradient);
  const ValueId fence = p.value("fence", Shape{16}, Role::kActivation, true);
  const GroupRef shards = GroupRef::along({AxisKind::kShard});
  const auto wire = [&](CommKind kind, int64_t l) {
    return CommSpec{kind, shards, kNone, std::to_string(l), 4 * kElements};
  };
  int64_t life = 0;
  // A compute call that reads what a transfer writes waits for it.
  const auto settle = [&](ValueId v, int64_t of) {
    if (!o.ordered) return;
    p.call("settle " + p[v].name, Queue::kCompute, {p.op(Clear{}, {}, {fence})},
           {{v, Access::kRead, of}, {fence, Access::kWrite}});
  };
  for (int64_t m = 0; m < 2; ++m)
    for (int64_t l = 0; l < kLayers; ++l, ++life) {
      const auto layer = static_cast<size_t>(l);
      const std::string n = std::to_string(l);
      p.call("gather" + n, Queue::kData,
             {p.op(AllGather{.over = shards}, {shard[layer]}, {gathered})},
             {{shard[layer], Access::kRead}, {gathered, Access::kWrite, life}},
             wire(CommKind::kAllGather, l));
      settle(gathered, life);
      p.call("forward", Queue::kCompute, {p.op(Sum{.terms = 2}, {stream, gathered}, {stream})},
             {{stream, Access::kUpdate}, {gathered, Access::kRead, life}});
      p.call("backward", Queue::kCompute, {p.op(Sum{.terms = 2}, {stream, stream}, {partial})},
             {{stream, Access::kRead}, {partial, Access::kWrite, life}});
      p.call("reduce" + n, Queue::kData,
             {p.op(ReduceScatter{.over = shards}, {partial}, {gradient[layer]})},
             {{partial, Access::kRead, life}, {gradient[layer], Access::kAdd}},
             wire(CommKind::kReduceScatter, l));
      settle(gradient[layer], kNone);
    }
  for (size_t l = 0; l < static_cast<size_t>(kLayers); ++l)
    p.call("update" + std::to_string(l), Queue::kCompute,
           {p.op(Sum{.terms = 2}, {shard[l], gradient[l]}, {shard[l]})},
           {{shard[l], Access::kUpdate}, {gradient[l], Access::kRead}});
  return p;
}

struct State {
  std::vector<std::vector<float>> shards;
  std::vector<float> stream;
  bool operator==(const State&) const = default;
};

// The parts of this rank, of the same global numbers everywhere.
void start_sharded(Execution& run) {
  const int64_t share = run.view("shard0").elements();
  for (int64_t l = 0; l < kLayers; ++l) {
    const TensorView v = run.view(("shard" + std::to_string(l)).c_str());
    for (int64_t i = 0; i < share; ++i)
      v.f32()[i] = static_cast<float>(
          std::sin(static_cast<double>(l) + 0.1 * static_cast<double>(i + share * ranks().rank())));
  }
  run.fill("stream", static_cast<double>(ranks().rank()));
}

State run_sharded(const ShardedOptions& o, bool poison = false) {
  Execution run(sharded(o), ranks(), poison);
  start_sharded(run);
  for (int64_t k = 0; k < kSteps; ++k) run.executor.run();
  State s;
  for (int64_t l = 0; l < kLayers; ++l)
    s.shards.push_back(run.floats(("shard" + std::to_string(l)).c_str()));
  s.stream = run.floats("stream");
  return s;
}

// The same on all ranks' numbers at once, without an executor.
State expected_sharded() {
  const auto n = static_cast<size_t>(ranks().size());
  const size_t elements = kElements, share = (elements + n - 1) / n;
  std::vector<std::vector<float>> weights(kLayers, std::vector<float>(elements));
  for (size_t l = 0; l < weights.size(); ++l)
    for (size_t i = 0; i < elements; ++i)
      weights[l][i] =
          static_cast<float>(std::sin(static_cast<double>(l) + 0.1 * static_cast<double>(i)));
  std::vector<std::vector<float>> streams(n, std::vector<float>(elements));
  for (size_t r = 0; r < n; ++r)
    for (size_t i = 0; i < elements; ++i)
      streams[r][i] =
          static_cast<float>(std::sin(static_cast<double>(r) + 0.37 * static_cast<double>(i)));
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> gradients(kLayers);
    for (int m = 0; m < 2; ++m)
      for (size_t l = 0; l < weights.size(); ++l) {
        std::vector<float> sum(elements);
        for (size_t r = 0; r < n; ++r)
          for (size_t i = 0; i < elements; ++i) {
            streams[r][i] += weights[l][i];
            const float g = streams[r][i] + streams[r][i];
            sum[i] = r == 0 ? g : sum[i] + g;
          }
        if (m == 0)
          gradients[l] = sum;
        else
          for (size_t i = 0; i < elements; ++i) gradients[l][i] += sum[i];
      }
    for (size_t l = 0; l < weights.size(); ++l)
      for (size_t i = 0; i < elements; ++i) weights[l][i] += gradients[l][i];
  }
  State s;
  const auto r = static_cast<size_t>(ranks().rank());
  for (const auto& w : weights)
    s.shards.emplace_back(w.begin() + static_cast<int64_t>(std::min(elements, r * share)),
                          w.begin() + static_cast<int64_t>(std::min(elements, (r + 1) * share)));
  s.stream = streams[r];
  return s;
}

TEST(Executor, ShardedStepsComputeWhatOneRankWould) {
  EXPECT_EQ(run_sharded({}), expected_sharded());
}

TEST(Executor, OverlapChangesNoBit) {
  const State overlapped = run_sharded({});
  for (int k = 0; k < 3; ++k) EXPECT_EQ(run_sharded({}), overlapped);
  EXPECT_EQ(run_sharded({.ordered = true}), overlapped);
}

TEST(Executor, NothingReadsWhatIsDead) { EXPECT_EQ(run_sharded({}, true), expected_sharded()); }

// An observer is called by the thread of the run alone, also right behind a run without one.
TEST(Executor, ObserversHearEveryOpOnce) {
  Execution run(sharded({}), ranks());
  start_sharded(run);
  const std::thread::id own_thread = std::this_thread::get_id();
  for (int k = 0; k < 5; ++k) {
    run.executor.run();
    std::map<std::pair<const Call*, const Op*>, int> heard;
    run.executor.run([&](const runtime::OpEvent& e) {
      EXPECT_EQ(std::this_thread::get_id(), own_thread);
      ++heard[{&e.call, e.op.op}];
    });
    EXPECT_EQ(heard.size(), run.program.schedule.size());
    for (const auto& [op, times] : heard) EXPECT_EQ(times, 1);
  }
}

TEST(Executor, TellsWhatCommunicationTook) {
  Execution run(sharded({}), ranks());
  start_sharded(run);
  run.executor.run();
  const runtime::CommunicationTime& t = run.executor.communication();
  const int64_t others = ranks().size() - 1, share = kElements / ranks().size();
  const int64_t per_transfer = others * share * 4;
  EXPECT_EQ(t.bytes_sent.at(GroupRef::along({AxisKind::kShard})), 2 * 2 * kLayers * per_transfer);
  EXPECT_GT(t.total_s, 0);
  double by_group = 0;
  for (const auto& [group, s] : t.exposed_by) by_group += s;
  EXPECT_DOUBLE_EQ(by_group, t.exposed_s);
}

// What a rank has of a matrix, gathered along its columns, summed over the ranks in two ways.
SmallProgram inside_a_segment(const Mesh& mesh, int64_t rows, int64_t columns) {
  SmallProgram p("tensor", mesh, own(mesh));
  const ValueId part = p.value("part", Shape{rows, columns}, Role::kActivation, true);
  const ValueId whole = p.value("whole", Shape{rows, columns}, Role::kActivation, true);
  const ValueId sum = p.value("sum", Shape{rows, columns}, Role::kActivation, true);
  const ValueId maximum = p.value("maximum", Shape{rows, columns}, Role::kActivation, true);
  const ValueId scattered = p.value("scattered", Shape{rows, columns}, Role::kActivation, true);
  for (const ValueId v : {part, scattered}) {
    p[v].sharding.place[AxisKind::kTensor] = 1;
    localise(p[v], mesh);
  }
  const GroupRef tensor = GroupRef::along({AxisKind::kTensor});
  p.call("segment", Queue::kCompute,
         {p.op(AllGather{.over = tensor, .dim = 1}, {part}, {whole}),
          p.op(AllReduce{.over = tensor}, {whole}, {sum}),
          p.op(AllReduce{.over = tensor, .max = true}, {whole}, {maximum}),
          p.op(ReduceScatter{.over = tensor, .dim = 1}, {whole}, {scattered})},
         {{part, Access::kRead},
          {whole, Access::kWrite},
          {sum, Access::kWrite},
          {maximum, Access::kWrite},
          {scattered, Access::kWrite}});
  return p;
}

TEST(Executor, CollectivesInsideSegmentsCutAnyDimension) {
  const Mesh mesh = mesh_of(AxisKind::kTensor);
  for (const int64_t columns : {16, 13, 5}) {  // 5 over 4: one rank has nothing
    const int64_t rows = 37;
    Execution run(inside_a_segment(mesh, rows, columns), ranks());
    const int64_t extent = run.view("part").shape[1], first = extent * ranks().rank();
    const auto at = [](int64_t r, int64_t c) { return static_cast<float>(100 * r + c); };
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < extent; ++c)
        run.view("part").f32()[r * extent + c] = first + c < columns ? at(r, first + c) : -1e30f;
    run.executor.run();
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t i = r * columns + c;
        ASSERT_EQ(run.view("whole").f32()[i], at(r, c)) << r << ' ' << c << " of " << columns;
        ASSERT_EQ(run.view("sum").f32()[i], at(r, c) * static_cast<float>(ranks().size()));
        ASSERT_EQ(run.view("maximum").f32()[i], at(r, c));
      }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < extent; ++c)
        ASSERT_EQ(run.view("scattered").f32()[r * extent + c],
                  first + c < columns ? at(r, first + c) * static_cast<float>(ranks().size()) : 0)
            << r << ' ' << c << " of " << columns;
  }
}

// Every stage adds one to what comes, twice around (as interleaved stages do), and the way back.
SmallProgram pipeline(const Mesh& mesh, int64_t microbatches) {
  const Coordinates at = own(mesh);
  const int64_t stages = ranks().size(), stage = at[AxisKind::kPipeline];
  SmallProgram p("pipeline", mesh, at);
  const ValueId in = p.value("in", Shape{kElements}, Role::kHidden);
  const ValueId out = p.value("out", Shape{kElements}, Role::kHidden);
  const ValueId one = p.value("one", Shape{kElements}, Role::kWeight, true);
  const ValueId result = p.value("result", Shape{kElements}, Role::kActivation, true);
  const auto message = [&](CommKind kind, int64_t peer, const std::string& label) {
    return CommSpec{kind, {}, peer, label, 4 * kElements};
  };
  const int64_t next = (stage + 1) % stages, before = (stage + stages - 1) % stages;
  int64_t life = 0;
  const auto pass = [&](bool forward, bool first, bool last, const std::string& label) {
    const int64_t from = forward ? before : next, to = forward ? next : before;
    const std::string way = forward ? " forward" : " backward";
    if (!first)
      p.call("receive" + way, forward ? Queue::kReceiveForward : Queue::kReceiveBackward,
             {p.op(Receive{}, {}, {in})}, {{in, Access::kWrite, life}},
             message(CommKind::kReceive, from, label));
    else
      p.call("start" + way, Queue::kCompute, {p.op(Clear{}, {}, {in})},
             {{in, Access::kWrite, life}});
    p.call("add" + way, Queue::kCompute, {p.op(Sum{.terms = 2}, {in, one}, {out})},
           {{in, Access::kRead, life}, {one, Access::kRead}, {out, Access::kWrite, life}});
    if (!last)
      p.call("send" + way, forward ? Queue::kSendForward : Queue::kSendBackward,
             {p.op(Send{}, {out}, {})}, {{out, Access::kRead, life}},
             message(CommKind::kSend, to, label));
    else
      p.call("end" + way, Queue::kCompute, {p.op(Sum{.terms = 2}, {result, out}, {result})},
             {{result, Access::kUpdate}, {out, Access::kRead, life}});
    ++life;
  };
  p.call("clear", Queue::kCompute, {p.op(Clear{}, {}, {result})}, {{result, Access::kWrite}});
  for (int64_t m = 0; m < microbatches; ++m)
    for (int64_t round = 0; round < 2; ++round)
      pass(true, stage == 0 && round == 0, stage == stages - 1 && round == 1, std::to_string(m));
  for (int64_t m = 0; m < microbatches; ++m)
    for (int64_t round = 0; round < 2; ++round)
      pass(false, stage == stages - 1 && round == 0, stage == 0 && round == 1, std::to_string(m));
  return p;
}

TEST(Executor, MessagesOfBothDirectionsNeverMix) {
  if (ranks().size() == 1) return;
  const Mesh mesh = mesh_of(AxisKind::kPipeline);
  for (const bool poison : {false, true}) {
    Execution run(pipeline(mesh, 4), ranks(), poison);
    const TensorView one = run.view("one"), result = run.view("result");
    std::fill_n(one.f32(), kElements, 1.0f);
    run.executor.run();
    const int64_t stages = ranks().size(), stage = ranks().rank();
    const int64_t ends = (stage == 0 ? 1 : 0) + (stage == stages - 1 ? 1 : 0);
    for (int64_t i = 0; i < kElements; ++i)
      ASSERT_EQ(result.f32()[i], static_cast<float>(4 * 2 * stages * ends)) << "element " << i;
  }
}

// Another thread, as a watchdog would, sees for whom the others stand still.
TEST(Executor, SaysWhomItWaitsFor) {
  if (ranks().size() == 1) return;
  const int64_t late = ranks().size() - 1;
  Execution run(sharded({}), ranks());
  start_sharded(run);
  EXPECT_EQ(run.executor.waiting().call, kNone);
  ranks().barrier();
  if (ranks().rank() == late) {
    std::this_thread::sleep_for(std::chrono::seconds(2));  // long enough on a busy machine
    run.executor.run();
    return;
  }
  std::atomic<bool> over = false, seen = false;
  std::thread watch([&] {
    while (!over) {
      const runtime::Waiting w = run.executor.waiting();
      if (w.call == CallId(0) && w.op == "gather0.0" && w.missing == std::vector{late} &&
          static_cast<int64_t>(w.group.size()) == ranks().size())
        seen = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  run.executor.run();
  over = true;
  watch.join();
  EXPECT_TRUE(seen);
  EXPECT_EQ(run.executor.waiting().call, kNone);
  EXPECT_GT(run.executor.communication().exposed_by.at(GroupRef::along({AxisKind::kShard})), 0.2);
}

}  // namespace
}  // namespace tessera::testing
