// Owns everything a run needs on one rank: kernels, communicators, one arena as large as the
// largest program, and an executor per program. Programs share state by having it at the same
// offsets, which is checked here.
#include "runtime/engine.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/philox.h"
#include "base/shape.h"
#include "comm/world.h"
#include "kernels/elementwise.h"
#include "kernels/update.h"
#include "runtime/host_executor.h"
#include "runtime/initialize.h"
#include "runtime/shared_device.h"
#include "runtime/stream_executor.h"

namespace tessera::runtime {
namespace {

int64_t largest(const std::vector<Program>& programs, int64_t Program::*arena) {
  int64_t bytes = 0;
  for (const Program& p : programs) bytes = std::max(bytes, p.*arena);
  return bytes;
}

bool is_cache(const Program& p, const Buffer& f) {
  const BufferKind& k = p.kind(f.kind);
  return !k.values.empty() && p[k.values[0]].role == Role::kCache;
}

BufferId buffer_of(const Program& p, BufferKindId kind, int64_t layer) {
  for (const BufferId f : p.buffers.ids())
    if (p.buffer(f).kind == kind && p.buffer(f).layer == layer) return f;
  CHECK(false, "program {} has no {} of layer {}", p.name, p.kind(kind).name, layer);
}

// Returns whether a state buffer is on the host, and its offset in its arena.
std::pair<bool, int64_t> place_of(const Program& p, BufferKindId kind, int64_t layer) {
  const int64_t offset = p.buffer(buffer_of(p, kind, layer)).offset;
  return {p.kind(kind).host, p.kind(kind).host ? offset - p.bytes : offset};
}

// CHECKs that state of the same name is at the same offset in both programs.
void check_agreement(const Program& a, const Program& b) {
  std::map<std::pair<std::string, std::vector<int64_t>>, const StateShard*> ours;
  const std::vector<StateShard> first = local_state(a), second = local_state(b);
  for (const StateShard& x : first) ours[{x.name, x.begin}] = &x;
  for (const StateShard& x : second) {
    const auto y = ours.find({x.name, x.begin});
    if (y == ours.end()) continue;
    CHECK(place_of(a, y->second->kind, x.layer) == place_of(b, x.kind, x.layer) &&
              y->second->first == x.first && y->second->dtype == x.dtype &&
              (!x.scales ||
               place_of(a, y->second->scales, x.layer) == place_of(b, x.scales, x.layer)),
          "programs {} and {} disagree on {}", a.name, b.name, x.name);
  }
  // Programs share caches of keys and values. A program with fewer sequences has a part of a cache.
  std::map<std::pair<std::string, int64_t>, std::pair<int64_t, int64_t>> caches;
  for (const Buffer& f : a.buffers)
    if (is_cache(a, f))
      caches[{a.kind(f.kind).name, f.layer}] = {f.offset, f.offset + a.kind(f.kind).bytes};
  for (const Buffer& f : b.buffers) {
    if (!is_cache(b, f)) continue;
    const auto there = caches.find({b.kind(f.kind).name, f.layer});
    CHECK(there == caches.end() ||
              (there->second.first <= f.offset && f.offset < there->second.second),
          "programs {} and {} disagree on {} of layer {}", a.name, b.name, b.kind(f.kind).name,
          f.layer);
  }
}

// Returns beta1 of the schedule-free update of a piece of master weights: the share of the master
// in the weights that GEMMs read.
float iterate_share(const Program& p, const StateShard& master) {
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops)
      if (const auto* update = op.if_as<OnePassUpdate<OptimizerKind::kScheduleFree>>())
        if (update->update.members == p.kind(master.kind).like)
          return static_cast<float>(update->update.beta1);
  CHECK(false, "{} has an iterate and no update", master.name);
}

}  // namespace

Engine::Engine(std::vector<Program> programs, std::unique_ptr<PreparedKernels> kernels,
               EngineOptions options)
    : kernels_(std::move(kernels)),
      alone_(options.world ? nullptr : comm::self_world()),
      devices_(options.world ? device_world(*options.world) : nullptr),
      communicators_(devices_        ? *devices_
                     : options.world ? *options.world
                                     : *alone_,
                     programs),
      host_arena_("offloaded buffers", largest(programs, &Program::host_bytes)) {
  hooks_.now_s = std::move(options.now_s);
  for (size_t i = 1; i < programs.size(); ++i) check_agreement(programs[0], programs[i]);
  const int64_t bytes = largest(programs, &Program::bytes);
  arena_ = kernels_->backend().arena("arena", bytes);
  if (kernels_->backend().has_streams() && options.poison)
    throw Error("compiler.poison=true supports only run.device=cpu. Set compiler.poison=false.");
  make_executors(std::move(programs), options.poison);
}

void Engine::make_executors(std::vector<Program> programs, bool poison) {
  std::vector<MemoryRange> exchanged = {{host_arena_.data(), host_arena_.bytes()}};
  for (Program& p : programs) {
    const ProgramMemory memory = {*arena_, host_arena_.data()};
    bound_.push_back(
        std::make_unique<BoundProgram>(std::move(p), memory, *kernels_, communicators_));
    if (!kernels_->backend().has_streams()) {
      executors_.push_back(std::make_unique<HostExecutor>(*bound_.back(), hooks_, poison));
      continue;
    }
    auto e = std::make_unique<StreamExecutor>(*bound_.back(), kernels_->table(), hooks_);
    for (const MemoryRange& m : e->exchange().host_memory()) exchanged.push_back(m);
    executors_.push_back(std::move(e));
  }
  arena_->pin("the buffers that each step exchanges with the device", exchanged);
}

// Returns a world that uses NCCL, or nullptr if there is no GPU, only one rank, or ranks that share
// a GPU, which NCCL does not support; the host then transfers the bytes.
std::unique_ptr<comm::World> Engine::device_world(comm::World& world) {
  transport_ = world.transport();
  const std::string device = kernels_->backend().device_id();
  if (device.empty() || world.size() == 1) return nullptr;
  const std::vector<std::string> devices =
      world.all_gather(fmt::format("{} {}", world.host(world.rank()), device));
  if (const auto shared = ranks_that_share(devices)) {
    transport_ = fmt::format(
        "{}, through host memory: ranks {} and {} share a GPU ({}), which NCCL does not support. "
        "Graphs are disabled. Give each rank its own GPU for full speed",
        transport_, shared->first, shared->second, devices[shared->second]);
    return nullptr;
  }
  auto nccl = comm::nccl_world(world);
  transport_ = nccl->transport() + "; each rank has its own GPU";
  return nccl;
}

int64_t Engine::planned_bytes() const {
  int64_t bytes = 0;
  for (const auto& b : bound_) bytes = std::max(bytes, b->program().bytes);
  return bytes;
}

TensorView Engine::elements(const Program& p, BufferKindId kind, int64_t layer, int64_t first,
                            int64_t count) const {
  const DType type = p[p.kind(kind).values.at(0)].dtype;
  const Arenas arenas = {arena_->data(), host_arena_.data()};
  return {arenas.buffer(p, buffer_of(p, kind, layer)) + first * size_of(type), type, {count}};
}

TensorView Engine::view(const StateShard& x, size_t of) const {
  const Box box = {x.begin, x.end};
  TensorView v = elements(program(of), x.kind, x.layer, x.first, box.elements());
  v.shape = box.extents();
  return executors_[of]->fetch(v);
}

void Engine::written(const TensorView& view) const { executors_[0]->send(view); }

void Engine::initialize(uint64_t seed) {
  for (const StateShard& shard : local_state(program(), position().at)) initialize(shard, seed);
  round_weights();
}

// Weights are sampled by (seed, name, global element), and so is state that starts as its weight;
// the rest of the state starts at zero.
void Engine::initialize(const StateShard& of, uint64_t seed) {
  const StateShard shard = starts_as_weight(of.role) ? weight_piece(of) : of;
  const Value& value = program()[shard.weight];
  // A quantized weight is computed from another value, which has the random numbers.
  if (shard.role == Role::kWeight && value.of != kNone) return;
  if (shard.role != Role::kWeight) return clear(shard);
  const TensorView v = view(shard);
  initialize_part(v, shard.shape, {shard.begin, shard.end}, value.initial,
                  hash_name(shard.name, seed), kernels_->threads());
  written(v);
}

namespace {

MomentCode code_of(const StateShard& x) {
  CHECK(x.scales, "{} has no scales", x.name);
  return x.role == Role::kMoment1 ? MomentCode::kSigned : MomentCode::kUnsigned;
}

}  // namespace

Engine::MomentBlocks Engine::moment_blocks(const StateShard& x) const {
  const int64_t end = x.first + Box{x.begin, x.end}.elements();
  const int64_t block = x.first / kMomentBlock;
  const int64_t blocks = (end + kMomentBlock - 1) / kMomentBlock - block;
  const auto fetch = [&](BufferKindId kind, int64_t unit) {
    return executors_[0]->fetch(elements(program(), kind, x.layer, block * unit, blocks * unit));
  };
  return {fetch(x.kind, kMomentBlock), fetch(x.scales, 1), code_of(x),
          x.first - block * kMomentBlock};
}

int64_t Engine::moments_in_buffer(const StateShard& x) const {
  return program()[program().kind(x.kind).values.at(0)].local().elements();
}

void Engine::write_moments(const StateShard& x, std::span<const float> all) const {
  const auto n = std::ssize(all);
  const TensorView codes = executors_[0]->fetch(elements(program(), x.kind, x.layer, 0, n));
  const TensorView scales =
      executors_[0]->fetch(elements(program(), x.scales, x.layer, 0, n / kMomentBlock));
  kernels::quantize_moments(
      all, code_of(x), {codes.as<uint8_t>(), static_cast<size_t>(codes.elements())},
      {scales.f32(), static_cast<size_t>(scales.elements())}, kernels_->threads());
  written(codes);
  written(scales);
}

// A block has moments of one weight, so its scale may be cleared with any of them.
void Engine::clear(const StateShard& x) const {
  const auto clear_view = [&](const TensorView& v) {
    kernels::launch(kernels::Cpu(), {.threads = kernels_->threads()}, kernels::ClearArgs{flat(v)});
    written(v);
  };
  clear_view(view(x));
  if (x.scales) clear_view(moment_blocks(x).scales);
}

bool Engine::keeps_iterates() const {
  const std::vector<StateShard> all = local_state(program(), position().at);
  return std::any_of(all.begin(), all.end(),
                     [](const StateShard& x) { return x.role == Role::kIterate; });
}

// Compute weights are rounded master weights. This rounds them once; later the updates do.
void Engine::round_weights(WeightsRead which) {
  const std::vector<StateShard> all = local_state(program(), position().at);
  // The pieces of a weight and of its iterate are the same boxes.
  std::map<std::pair<std::string, std::vector<int64_t>>, const StateShard*> iterates;
  for (const StateShard& x : all)
    if (x.role == Role::kIterate) iterates[{weight_piece(x).name, x.begin}] = &x;
  for (const StateShard& x : all) {
    if (x.copy == kNone) continue;
    const TensorView from = flat(view(x));
    const TensorView to = elements(program(), x.copy, x.layer, x.copy_first, from.elements());
    const TensorView rounded = arena_->host(to);
    const kernels::Launch launch = {.threads = kernels_->threads()};
    const auto iterate = iterates.find({x.name, x.begin});
    if (iterate == iterates.end() || which == WeightsRead::kMaster)
      kernels::launch(kernels::Cpu(), launch, kernels::CastArgs{from, rounded});
    else
      kernels::launch(kernels::Cpu(), launch,
                      kernels::InterpolateArgs{iterate_share(program(), x),
                                               flat(view(*iterate->second)), from, rounded});
    written(rounded);
  }
}

}  // namespace tessera::runtime
