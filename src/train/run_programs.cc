// Resolves `auto` values and sizes of a run file, and checks that its program fits in memory. If it
// does not, runs with changed keys are compiled, and those that fit are suggested with their exact
// sizes.
#include "train/run_programs.h"

#include <algorithm>
#include <functional>

#include "base/count.h"
#include "base/error.h"
#include "comm/world.h"
#include "compile/compile.h"
#include "data/tokenizer.h"
#include "ir/communicators.h"
#include "tensor/gpu.h"
#include "train/load_run.h"

namespace tessera::train {
namespace {

// Returns the bytes in the memory that the device computes on, which on a CPU include the host's
// buffers.
int64_t bytes_of(const Program& p, const config::RunConfig& config) {
  return p.bytes + (config.run.device == config::Device::kCuda ? 0 : p.host_bytes);
}

int64_t host_state_bytes(const Program& p) {
  int64_t bytes = 0;
  for (const Buffer& f : p.buffers)
    if (f.state && p.kind(f.kind).host) bytes += p.kind(f.kind).bytes;
  return bytes;
}

// Compiles the run with `change` and adds its bytes to `found`, unless that run is not valid.
void try_keys(const config::RunConfig& config, const Target& target, const std::string& keys,
              const std::function<void(config::RunConfig&)>& change,
              std::vector<std::pair<std::string, int64_t>>& found) {
  config::RunConfig other = config;
  change(other);
  try {
    config::validate(other);
    const compile::CompileRequest request =
        config::compile_request(other, compile::ProgramKind::kTrain);
    int64_t bytes = bytes_of(compile::compile(request, target), other);
    for (const compile::CompileRequest& smaller : compile::smaller_steps(request))
      bytes = std::max(bytes, bytes_of(compile::compile(smaller, target), other));
    found.emplace_back(keys, bytes);
  } catch (const Error&) {
    return;
  }
}

void try_offload(const auto& try_run) {
  for (const std::string what : {"activations", "optimizer", "activations+optimizer"})
    try_run("layout.offload=" + what, [&](config::RunConfig& c) { c.layout.offload = what; });
}

// Returns runs that compute the same training with less memory, as (keys to add, arena bytes), the
// smallest change first.
std::vector<std::pair<std::string, int64_t>> smaller_runs(const config::RunConfig& config,
                                                          const Target& target) {
  std::vector<std::pair<std::string, int64_t>> found;
  const auto try_run = [&](const std::string& keys, auto change) {
    try_keys(config, target, keys, change, found);
  };
  if (config.run.device == config::Device::kCuda && config.layout.offload == "none")
    try_offload(try_run);
  if (config.layout.recompute == "none")
    try_run("layout.recompute=selective",
            [](config::RunConfig& c) { c.layout.recompute = "selective"; });
  if (config.layout.recompute != "full")
    try_run("layout.recompute=full", [](config::RunConfig& c) { c.layout.recompute = "full"; });
  // The largest smaller micro-batch that divides the global batch.
  for (int64_t micro = config.batch.micro - 1; micro >= 1; --micro)
    if (config.batch.global % micro == 0) {
      try_run(fmt::format("batch.micro={}", micro),
              [&](config::RunConfig& c) { c.batch.micro = micro; });
      break;
    }
  if (config.batch.micro > 2)
    try_run("batch.micro=1 layout.recompute=full", [](config::RunConfig& c) {
      c.batch.micro = 1;
      c.layout.recompute = "full";
    });
  return found;
}

// Returns runs that need less memory but train differently: fewer bytes per weight, adapters, or
// more ranks, up to the first number of ranks that needs at most `available` bytes.
std::vector<std::pair<std::string, int64_t>> other_runs(const config::RunConfig& config,
                                                        const Target& target, int64_t available) {
  std::vector<std::pair<std::string, int64_t>> found;
  const auto try_run = [&](const std::string& keys, auto change) {
    try_keys(
        config, target, keys + " layout.recompute=full batch.micro=1",
        [&](config::RunConfig& c) {
          c.layout.recompute = "full";
          c.batch.micro = 1;
          change(c);
        },
        found);
  };
  if (config.run.device == config::Device::kCuda && config.layout.offload == "none")
    try_offload(try_run);
  try_run("precision=bf16_sr",
          [](config::RunConfig& c) { c.precision = compile::Precision::kBf16Sr; });
  if (config.lora.rank == 0)
    try_run("precision=bf16 lora.rank=16", [](config::RunConfig& c) {
      c.precision = compile::Precision::kBf16;
      c.lora.rank = 16;
    });
  // ZeRO 3 divides weights, gradients and optimizer state by the number of data-parallel ranks.
  for (int64_t ranks = 2; ranks <= 64; ranks *= 2) {
    const compile::Layout& l = config.layout;
    if (config.batch.global % (l.data * ranks) != 0) break;
    try_run(fmt::format("layout.data={} layout.zero=3", l.data * ranks), [&](config::RunConfig& c) {
      c.layout.data = l.data * ranks;
      c.layout.zero = 3;
    });
    if (!found.empty() && found.back().second <= available) break;  // more ranks fit, too
  }
  return found;
}

}  // namespace

compile::Precision resolve_precision(compile::Precision asked, const CpuFeatures& cpu) {
  if (asked != compile::Precision::kAuto) return asked;
  // Without bf16 dot products in hardware, bf16 GEMMs are slower than f32.
  return cpu.bf16_products() ? compile::Precision::kBf16 : compile::Precision::kFp32;
}

void resolve_machine(config::RunConfig& config, const CpuFeatures& cpu) {
  config::Device& device = config.run.device;
  if (device == config::Device::kAuto)
    device = why_no_gpu().empty() ? config::Device::kCuda : config::Device::kCpu;
  if (device == config::Device::kCuda && config.layout.context > 1 &&
      config.layout.context_method == compile::ContextMethod::kRing)
    throw Error(
        "{}: layout.context_method = ring is not supported on a GPU. Set it to gather or heads, or "
        "run.device: cpu.",
        config.source);
  if (device == config::Device::kCuda && config.precision == compile::Precision::kAuto)
    config.precision = compile::Precision::kBf16;
  config.precision = resolve_precision(config.precision, cpu);
}

void resolve_sizes(config::RunConfig& config) {
  if (config.model.vocabulary == 0 && config.data.tokenizer.empty())
    throw Error(
        "{}: model.vocabulary = 0 means the vocabulary of data.tokenizer, which is not set. Set "
        "one of them, or model.preset.",
        config.source);
  if (config.model.vocabulary == 0)
    config.model.vocabulary = data::load_tokenizer(tokenizer_of_run(config))->vocabulary_size();
  config::DataSection& data = config.data;
  if (data.sequence_length == 0) data.sequence_length = config.model.context;
  data.target_length = config::target_tokens(data);
}

int64_t outside_bytes(config::Device device, int64_t communicators) {
  static_assert(kCommunicatorBytes > comm::kNcclStagingBytes);
  if (device != config::Device::kCuda) return kOutsideBytes;
  return kGpuOutsideBytes + (communicators > 0 ? kNcclBytes : 0) +
         communicators * kCommunicatorBytes;
}

void require_memory(const config::RunConfig& config, const Program& program, int64_t limit,
                    const Target& target, const char* step) {
  const int64_t outside = outside_bytes(config.run.device, communicator_count(program));
  const int64_t need = bytes_of(program, config) + outside;
  if (need <= limit) return;
  const compile::MemoryPlan m = compile::memory_plan(program);
  std::string text = fmt::format(
      "{} needs {:.2f} GiB; this process may use {:.2f}.\n  activations {:.2f} · optimizer "
      "{:.2f} · weights {:.2f} · gradients {:.2f} · outside the arena {:.2f}",
      step, gib(need), gib(limit), gib(m.activations), gib(m.optimizer), gib(m.weights),
      gib(m.gradients), gib(outside));
  const auto fitting = [&](const std::vector<std::pair<std::string, int64_t>>& runs) {
    std::string fits;
    for (const auto& [keys, bytes] : runs)
      if (bytes + outside <= limit)
        fits += fmt::format("{} {}   {:.2f} GiB",
                            fits.empty() ? "\n  It fits with  " : "\n                ", keys,
                            gib(bytes + outside));
    return fits;
  };
  // Alternatives that do not change the training come first. The others are suggested only if none
  // of these fits.
  std::string fits = fitting(smaller_runs(config, target));
  if (fits.empty()) {
    fits = fmt::format(
        "\n  No smaller micro-batch or recomputation fits: weights and optimizer "
        "alone need {:.2f} GiB.",
        gib(program.state_bytes + m.gradients +
            (config.run.device == config::Device::kCuda ? 0 : host_state_bytes(program))));
    const std::string others = fitting(other_runs(config, target, limit - outside));
    fits += others.empty() ? " Use a smaller model, more memory or more ranks."
                           : others +
                                 "\n  (bf16_sr has no f32 master weights; lora trains adapters of "
                                 "an existing model, see docs/optimizers.md; layout.data needs "
                                 "that many devices or hosts)";
  }
  throw Error("{}", text + fits);
}

}  // namespace tessera::train
