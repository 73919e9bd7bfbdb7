#include "train/run_programs.h"

#include <sys/resource.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/tokenizer.h"

namespace tessera {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

int64_t process_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return INT64_MAX;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > static_cast<rlim_t>(INT64_MAX))
    return INT64_MAX;
  return static_cast<int64_t>(limit.rlim_cur);
}

// Runs that need less, as (keys to add, arena bytes), smallest change first.
std::vector<std::pair<std::string, int64_t>> smaller_runs(const RunConfig& config,
                                                          const Target& target) {
  std::vector<std::pair<std::string, int64_t>> found;
  const auto try_run = [&](const std::string& keys, auto change) {
    RunConfig other = config;
    change(other);
    found.emplace_back(keys, compile(compile_request(other, Purpose::kTrain), target).bytes);
  };
  if (config.layout.recompute == "none")
    try_run("layout.recompute=selective", [](RunConfig& c) { c.layout.recompute = "selective"; });
  if (config.layout.recompute != "full")
    try_run("layout.recompute=full", [](RunConfig& c) { c.layout.recompute = "full"; });
  for (int64_t micro = config.batch.micro - 1; micro >= 1; --micro)
    if (config.batch.global % micro == 0) {
      try_run(fmt::format("batch.micro={}", micro), [&](RunConfig& c) { c.batch.micro = micro; });
      break;
    }
  if (config.batch.micro > 2)
    try_run("batch.micro=1 layout.recompute=full", [](RunConfig& c) {
      c.batch.micro = 1;
      c.layout.recompute = "full";
    });
  return found;
}

// The calls from first to last toucher of a frame; none for state, which lives throughout.
struct Span {
  int64_t first = INT64_MAX, last = -1;
};

std::vector<Span> lives_of(const Program& p) {
  std::vector<Span> lives(p.frames.size());
  for (size_t c = 0; c < p.schedule.size(); ++c)
    for (const FrameId f : p.schedule[c].frames) {
      if (p.frame(f).state) continue;
      Span& life = lives[static_cast<size_t>(f)];
      life.first = std::min(life.first, static_cast<int64_t>(c));
      life.last = static_cast<int64_t>(c);
    }
  return lives;
}

// Where most bytes are alive, scratch included.
int64_t fullest_call(const Program& p, const std::vector<Span>& lives) {
  std::vector<int64_t> bytes(p.schedule.size() + 1, 0);
  for (size_t f = 0; f < lives.size(); ++f) {
    if (lives[f].last < 0) continue;
    bytes[static_cast<size_t>(lives[f].first)] += p.bytes_of(static_cast<FrameId>(f));
    bytes[static_cast<size_t>(lives[f].last) + 1] -= p.bytes_of(static_cast<FrameId>(f));
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  for (size_t c = 0; c < p.schedule.size(); ++c) bytes[c] += p.segment(p.schedule[c]).scratch_bytes;
  return std::max_element(bytes.begin(), bytes.end()) - bytes.begin();
}

int64_t& line_of(MemoryPlan& m, Role role) {
  switch (role) {
    case Role::kWeight:
      return m.weights;
    case Role::kMaster:
    case Role::kMoment1:
    case Role::kMoment2:
      return m.optimizer;
    case Role::kGradient:
      return m.gradients;
    case Role::kStream:
    case Role::kStreamGradient:
    case Role::kActivation:
    case Role::kScratch:
      return m.activations;
    default:
      return m.other;
  }
}

}  // namespace

Precision resolve_precision(Precision asked, const CpuFeatures& cpu) {
  if (asked != Precision::kAuto) return asked;
  return cpu.bf16_products() ? Precision::kBf16 : Precision::kFp32;
}

void resolve_sizes(RunConfig& config) {
  if (config.model.vocabulary == 0)
    config.model.vocabulary = load_tokenizer(config.data.tokenizer)->vocabulary_size();
  if (config.data.sequence_length == 0) config.data.sequence_length = config.model.context;
}

CompileRequest compile_request(const RunConfig& config, Purpose purpose) {
  CompileRequest r;
  r.model = config.model;
  r.layout = config.layout;
  r.options = config.compiler;
  r.precision = config.precision;
  const OptimizerSection& o = config.optimizer;
  r.optimizer = {o.beta1, o.beta2, o.epsilon, o.weight_decay, o.clip_norm};
  r.purpose = purpose;
  r.sequences = config.batch.micro;
  r.tokens = config.data.sequence_length;
  const int64_t together = config.batch.micro * config.layout.data;
  r.microbatches = purpose == Purpose::kTrain ? config.batch.global / together : 1;
  r.optimizer_state = true;
  return r;
}

MemoryPlan memory_plan(const Program& p) {
  const std::vector<Span> lives = lives_of(p);
  const int64_t fullest = fullest_call(p, lives);
  MemoryPlan m;
  for (size_t f = 0; f < p.frames.size(); ++f) {
    const FrameKind& kind = p.kind(p.frames[f].kind);
    const bool alive = lives[f].first <= fullest && fullest <= lives[f].last;
    if (p.frames[f].state || alive) line_of(m, p[kind.values.at(0)].role) += kind.bytes;
  }
  if (!p.schedule.empty())
    m.activations += p.segment(p.call(static_cast<CallId>(fullest))).scratch_bytes;
  m.arena = p.bytes;
  m.live = p.live_bytes;
  m.other = p.bytes - m.weights - m.optimizer - m.gradients - m.activations;
  return m;
}

int64_t memory_limit(const CpuFeatures& cpu) {
  return std::min({cpu.memory_bytes, process_limit(RLIMIT_AS), process_limit(RLIMIT_DATA)});
}

void require_memory(const RunConfig& config, const Program& program, int64_t limit,
                    const Target& target) {
  const int64_t need = program.bytes + kOutsideBytes;
  if (need <= limit) return;
  const MemoryPlan m = memory_plan(program);
  std::string text = fmt::format(
      "this run needs {:.2f} GiB; this process may use {:.2f}.\n  activations {:.2f} · optimizer "
      "{:.2f} · weights {:.2f} · gradients {:.2f} · outside the arena {:.2f}",
      gib(need), gib(limit), gib(m.activations), gib(m.optimizer), gib(m.weights), gib(m.gradients),
      gib(kOutsideBytes));
  std::string fits;
  for (const auto& [keys, bytes] : smaller_runs(config, target))
    if (bytes + kOutsideBytes <= limit)
      fits += fmt::format("{} {}   {:.2f} GiB",
                          fits.empty() ? "\n  It fits with  " : "\n                ", keys,
                          gib(bytes + kOutsideBytes));
  if (fits.empty())
    fits = fmt::format(
        "\n  No smaller micro-batch or recomputation fits: weights and optimizer "
        "alone take {:.2f} GiB. Use a smaller model or more memory.",
        gib(program.state_bytes + m.gradients));
  throw Error("{}", text + fits);
}

}  // namespace tessera
