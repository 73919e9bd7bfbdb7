#include "train/run_programs.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/count.h"
#include "base/error.h"
#include "data/span_corruption.h"
#include "data/tokenizer.h"

namespace tessera {
namespace {

int64_t process_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return INT64_MAX;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > static_cast<rlim_t>(INT64_MAX))
    return INT64_MAX;
  return static_cast<int64_t>(limit.rlim_cur);
}

// Of the memory that the device computes on; the host's arena is the CPU's own.
int64_t bytes_of(const Program& p, const RunConfig& config) {
  return p.bytes + (config.run.device == Device::kCuda ? 0 : p.host_bytes);
}

// Runs that need less, as (keys to add, arena bytes), smallest change first.
std::vector<std::pair<std::string, int64_t>> smaller_runs(const RunConfig& config,
                                                          const Target& target) {
  std::vector<std::pair<std::string, int64_t>> found;
  const auto try_run = [&](const std::string& keys, auto change) {
    RunConfig other = config;
    change(other);
    found.emplace_back(keys,
                       bytes_of(compile(compile_request(other, Purpose::kTrain), target), other));
  };
  if (config.run.device == Device::kCuda && config.layout.offload == "none")
    try_run("layout.offload=activations", [](RunConfig& c) { c.layout.offload = "activations"; });
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

}  // namespace

Precision resolve_precision(Precision asked, const CpuFeatures& cpu) {
  if (asked != Precision::kAuto) return asked;
  return cpu.bf16_products() ? Precision::kBf16 : Precision::kFp32;
}

void resolve_sizes(RunConfig& config) {
  if (config.model.vocabulary == 0 && config.data.tokenizer.empty())
    throw Error(
        "{}: model.vocabulary = 0 means that of data.tokenizer, which is not given. Give either, "
        "or "
        "model.preset.",
        config.source);
  if (config.model.vocabulary == 0)
    config.model.vocabulary = load_tokenizer(config.data.tokenizer)->vocabulary_size();
  DataSection& data = config.data;
  if (data.sequence_length == 0) data.sequence_length = config.model.context;
  if (data.target_length == 0 && data.objective == Objective::kSpanCorruption)
    data.target_length =
        fit_spans(data.sequence_length, {data.noise_density, data.mean_span}).targets;
}

int64_t memory_limit(const CpuFeatures& cpu) {
  return std::min({cpu.memory_bytes, process_limit(RLIMIT_AS), process_limit(RLIMIT_DATA)});
}

void require_memory(const RunConfig& config, const Program& program, int64_t limit,
                    const Target& target) {
  const int64_t outside = config.run.device == Device::kCuda ? kCudaOutsideBytes : kOutsideBytes;
  const int64_t need = bytes_of(program, config) + outside;
  if (need <= limit) return;
  const MemoryPlan m = memory_plan(program);
  std::string text = fmt::format(
      "this run needs {:.2f} GiB; this process may use {:.2f}.\n  activations {:.2f} · optimizer "
      "{:.2f} · weights {:.2f} · gradients {:.2f} · outside the arena {:.2f}",
      gib(need), gib(limit), gib(m.activations), gib(m.optimizer), gib(m.weights), gib(m.gradients),
      gib(outside));
  std::string fits;
  for (const auto& [keys, bytes] : smaller_runs(config, target))
    if (bytes + outside <= limit)
      fits += fmt::format("{} {}   {:.2f} GiB",
                          fits.empty() ? "\n  It fits with  " : "\n                ", keys,
                          gib(bytes + outside));
  if (fits.empty())
    fits = fmt::format(
        "\n  No smaller micro-batch or recomputation fits: weights and optimizer "
        "alone take {:.2f} GiB. Use a smaller model or more memory.",
        gib(program.state_bytes + m.gradients));
  throw Error("{}", text + fits);
}

}  // namespace tessera
