#include "config/layout_section.h"

#include <charconv>

#include "compile/layout_check.h"
#include "compile/schedule/schedule_passes.h"
#include "config/run_config.h"
#include "config/run_request.h"
#include "model/family.h"

namespace tessera::config {
namespace {

// Accepts full:N, which recomputes N of the layers, in addition to the names.
bool is_recomputation(const std::string& text, int64_t layers) {
  if (text == "none" || text == "selective" || text == "full") return true;
  int64_t n = -1;
  const char* end = text.data() + text.size();
  return text.starts_with("full:") && std::from_chars(text.data() + 5, end, n).ptr == end &&
         n >= 0 && n <= layers;
}

bool is_offload(const std::string& text) {
  try {
    compile::parse_offload(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

// Calls the compiler's own checks, which throw for the first rule that is violated, so that the
// rules for layouts are stated only once.
void check_layout(const RunConfig& run, KeyErrors& errors) {
  errors.add_error_of([&] {
    const compile::CompileRequest r = compile_request(run, compile::ProgramKind::kTrain);
    compile::check_layout(run.model, run.layout,
                          {run.batch.global, run.batch.micro, r.tokens, r.encoder_tokens});
    compile::check_head_copies(r);
    compile::check_preference(r);
    compile::check_quantization(r);
  });
}

namespace {

// Adds errors for keys that contradict an optimizer that averages the weights itself.
void check_average(const RunConfig& run, KeyErrors& errors) {
  if (!traits_of(run.optimizer.kind).averages) return;
  const std::string kind = name_of_entry(run.optimizer.kind);
  if (run.schedule.kind != ScheduleKind::kConstant)
    errors.add("schedule.kind",
               "= {}, but optimizer.kind is {}, whose average of the weights replaces the decay of "
               "the learning rate. Set schedule.kind=constant (warm-up is supported).",
               name_of_entry(run.schedule.kind), kind);
  if (run.optimizer.ema > 0)
    errors.add("optimizer.ema",
               "= {}, but optimizer.kind is {}, which evaluates and exports an average of the "
               "weights already. Set optimizer.ema=0.",
               run.optimizer.ema, kind);
}

// Returns the kinds of the run's optimizer and of its groups, with their keys.
std::vector<std::pair<std::string, OptimizerKind>> optimizer_kinds(const RunConfig& run) {
  std::vector<std::pair<std::string, OptimizerKind>> kinds = {
      {"optimizer.kind", run.optimizer.kind}};
  for (const OptimizerGroupSection& group : run.optimizer.groups)
    kinds.emplace_back(fmt::format("optimizer.groups[{}].kind", kinds.size() - 1),
                       settings_of(group, run.optimizer).kind);
  return kinds;
}

// muP's rules require updates whose size does not depend on the size of the gradient.
void check_mup(const RunConfig& run, KeyErrors& errors) {
  if (run.model.mup.base == 0) return;
  for (const auto& [key, kind] : optimizer_kinds(run))
    if (kind == OptimizerKind::kSgd || traits_of(kind).factored)
      return errors.add("model.mup.base",
                        "= {}, but {} is {}, for which mup is not supported. Possible: adamw, "
                        "lion, muon, schedule_free.",
                        run.model.mup.base, key, name_of_entry(kind));
}

// Adafactor's factors are laid out by the GEMMs of a program, and the validation program does not
// contain the modules' GEMMs.
void check_mtp(const RunConfig& run, KeyErrors& errors) {
  if (run.model.mtp_depth == 0) return;
  for (const auto& [key, kind] : optimizer_kinds(run))
    if (traits_of(kind).factored)
      return errors.add("model.mtp_depth",
                        "= {} is not supported with {} = {}. Use another optimizer, or set "
                        "mtp_depth to 0.",
                        run.model.mtp_depth, key, name_of_entry(kind));
}

}  // namespace

void check_policies(const RunConfig& run, KeyErrors& errors) {
  check_average(run, errors);
  check_mup(run, errors);
  check_mtp(run, errors);
  const compile::Layout& l = run.layout;
  if (!is_recomputation(l.recompute, run.model.all_layers()))
    errors.add(
        "layout.recompute",
        "= '{}', expected none, selective, full or full:N with N up to {} (the first N layers)",
        l.recompute, run.model.all_layers());
  if (!is_offload(l.offload))
    errors.add("layout.offload", "= '{}', expected {}", l.offload, compile::kOffloadChoices);
  if (is_offload(l.offload) && compile::parse_offload(l.offload).optimizer &&
      !(run.run.dump_gradients.empty() && run.run.dump_values.empty()))
    errors.add("layout.offload",
               "= '{}' is not supported with run.dump_gradients and run.dump_values, because "
               "offloaded state reuses the memory of the gradients. Remove one of them.",
               l.offload);
  if (l.context > 1 && run.compiler.attention == compile::AttentionKind::kUnfused)
    errors.add("compiler.attention",
               "= unfused is not supported with layout.context = {}. Set it to fused.", l.context);
  if (run.compiler.tp_comm_overlap && model::rule_of(run.model.family).has_encoder)
    errors.add("compiler.tp_comm_overlap", "= true is not supported by family {}. Remove it.",
               name_of_entry(run.model.family));
  const bool rings = l.context > 1 && l.context_method == compile::ContextMethod::kRing;
  if (rings && run.run.device == Device::kCuda)
    errors.add("layout.context_method",
               "= ring is not supported with run.device = cuda. Set it to gather or heads.");
  if (run.compiler.tp_comm_overlap && rings)
    errors.add("compiler.tp_comm_overlap",
               "= true is not supported with layout.context_method = ring. Remove it.");
  if (run.compiler.tp_comm_overlap && l.recompute.starts_with("full"))
    errors.add(
        "compiler.tp_comm_overlap",
        "= true is not supported with layout.recompute = {}. Set layout.recompute to none or "
        "selective, or remove it.",
        l.recompute);
}

}  // namespace tessera::config
