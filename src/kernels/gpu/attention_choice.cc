// GpuAttention: chooses between our own kernels and a plan of cuDNN, and runs the chosen one. A
// stored choice is used as it is; without one, and with a clock, all plans that pass AttentionTrial
// are timed against our own kernels. A plan that fails is skipped. A stored choice that no longer
// exists is an error, because another plan would change the bits.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "kernels/gpu/attention_trial.h"

namespace tessera::kernels {
namespace {

using gpu::AttentionTrial;
using gpu::DnnParts;
using gpu::DnnRuns;

// Deterministic gradients cost cuDNN a workspace as large as its scores: 4 GiB for 32 heads of
// 8,192 tokens. Attention that needs more than this limit is divided into several runs.
constexpr int64_t kMostWorkspace = 1ll << 30;
// The alignment that cuDNN's workspace needs, which is that of driver allocations; values in the
// arena may have less.
constexpr int64_t kAlignment = 256;

void* aligned(void* workspace) {
  const auto at = reinterpret_cast<uintptr_t>(workspace);
  return element(workspace, DType::kU8, (kAlignment - at % kAlignment) % kAlignment);
}

// The workspace is roughly proportional to the heads of a run, so the runs are divided by the
// excess.
DnnRuns within_workspace(const AttentionShape& shape, const CudaDnn& library) {
  DnnRuns runs(DnnParts::whole(shape), library);
  if (!shape.gradient) return runs;
  runs.dnn->build(0);
  const auto bytes = static_cast<double>(runs.dnn->workspace_bytes(0));
  if (bytes <= kMostWorkspace) return runs;
  return {runs.parts.smaller(bytes / kMostWorkspace), library};
}

}  // namespace

std::string attention_text(const AttentionShape& s) {
  return fmt::format("b={} t={} s={} kv={} g={} d={} scale={}{}{}{}{} {}", s.b, s.t, s.s, s.kv, s.g,
                     s.d, s.scale, s.apart ? " apart" : "", s.causal ? " causal" : "",
                     s.documents ? " documents"
                     : s.padding ? " padding"
                                 : "",
                     s.gradient ? " gradient" : "", name_of(s.dtype));
}

struct GpuAttention::Plan {
  AttentionShape shape;
  std::optional<DnnRuns> dnn;  // none: our own kernels
  size_t plan = 0;

  Plan(const AttentionShape& s, const AttentionChoosing& by) : shape(s) {
    if (by.dnn == nullptr || by.choices == nullptr || !may_choose(s)) return;
    const std::string text = fmt::format("cuDNN {} {}", by.dnn->version(), attention_text(s));
    if (const AttentionChoice* known = by.choices->find_attention(text))
      take(*known, *by.dnn, text);
    else if (by.now_s)
      by.choices->add_attention(text, measure(by, text));
  }

  void take(const AttentionChoice& known, const CudaDnn& library, const std::string& text) {
    if (known.own()) return;
    const DnnParts parts = {shape, known.samples, known.kv};
    std::vector<std::string> names;
    if (shape.b % parts.samples == 0 && shape.kv % parts.kv == 0)
      names = dnn.emplace(parts, library).dnn->plans();
    plan = std::find(names.begin(), names.end(), known.plan) - names.begin();
    if (plan == names.size())
      throw Error(
          "attention {} was measured with cuDNN's plan {} for {} x {}, but this cuDNN has no such "
          "plan:\n"
          "  remove its line from kernel_selection.txt, or start with "
          "run.kernel_selection=heuristic.",
          text, known.plan, known.samples, known.kv);
    dnn->dnn->build(plan);
  }

  // Chooses the fastest and returns it.
  AttentionChoice measure(const AttentionChoosing& by, const std::string& text) {
    const auto say = [&](const std::string& why) {
      if (by.say) by.say(fmt::format("attention {}: {}", text, why));
    };
    AttentionTrial trial(shape);
    std::vector<size_t> good;
    try {
      dnn.emplace(within_workspace(shape, *by.dnn));
    } catch (const Error& e) {
      say(fmt::format("by our own kernels. {}", e.what()));
    }
    for (size_t i = 0; dnn && i < dnn->dnn->plans().size(); ++i)
      if (const std::string why = fault(trial, i); why.empty())
        good.push_back(i);
      else
        say(fmt::format("cuDNN's plan {} is not used: {}", dnn->dnn->plans()[i], why));
    const FastestGemm fastest = time(trial, good, by);
    if (fastest.index == 0) {
      dnn.reset();
      return {.seconds = fastest.seconds};
    }
    plan = good[fastest.index - 1];
    const DnnParts& parts = dnn->parts;
    return {dnn->dnn->plans()[plan], parts.samples, parts.kv, dnn->dnn->workspace_bytes(plan),
            fastest.seconds};
  }

  std::string fault(AttentionTrial& trial, size_t i) const {
    try {
      dnn->dnn->build(i);
      return trial.fault(*dnn, i);
    } catch (const Error& e) {
      return e.what();
    }
  }

  // A plan that broke the device makes our own kernels fail after it: that is an error, not a
  // fallback.
  FastestGemm time(AttentionTrial& trial, const std::vector<size_t>& good,
                   const AttentionChoosing& by) const {
    try {
      return trial.fastest(dnn ? &*dnn : nullptr, good, by.now_s);
    } catch (const Error& e) {
      throw Error(
          "our own attention failed after cuDNN's was tried: {}\n  Start with "
          "run.kernel_selection=heuristic, which does without cuDNN.",
          e.what());
    }
  }
};

bool GpuAttention::may_choose(const AttentionShape& s) {
  return size_of(s.dtype) == 2 && s.d % 8 == 0 && s.d <= 128 &&
         !(s.documents && (s.apart || s.padding)) && !(s.causal && s.t != s.s);
}

GpuAttention::GpuAttention(const AttentionShape& shape, const AttentionChoosing& choosing)
    : plan_(std::make_unique<Plan>(shape, choosing)) {}
GpuAttention::~GpuAttention() = default;

bool GpuAttention::by_library() const { return plan_->dnn.has_value(); }

int64_t GpuAttention::workspace_bytes() const {
  if (plan_->dnn) {
    const int64_t bytes = plan_->dnn->dnn->workspace_bytes(plan_->plan);
    return bytes == 0 ? 0 : bytes + kAlignment;
  }
  const AttentionShape& s = plan_->shape;
  if (!s.gradient) return 0;
  AttentionGradArgs a;
  a.qkv = {nullptr, s.dtype, {s.b, s.t, s.kv, s.g + (s.apart ? 0 : 2), s.d}};
  if (s.apart) a.kv = {nullptr, s.dtype, {s.b, s.s, s.kv, 2, s.d}};
  return kernels::workspace_bytes(Gpu(), a, 1);
}

void GpuAttention::run(const Launch& l, const AttentionArgs& a) const {
  if (plan_->dnn)
    plan_->dnn->run(l.stream, plan_->plan, a, aligned(l.workspace));
  else
    launch(Gpu(), l, a);
}

void GpuAttention::run(const Launch& l, const AttentionGradArgs& a) const {
  if (plan_->dnn)
    plan_->dnn->run(l.stream, plan_->plan, a, aligned(l.workspace));
  else
    launch(Gpu(), l, a);
}

}  // namespace tessera::kernels
