// Translates predictions of plan/ to the plain structures of report/, which therefore does not
// depend on the planner. Every number comes from the same prediction that `tessera plan` prints, so
// page and terminal agree.
#include "cli/plan_html.h"

#include "base/count.h"
#include "cli/show.h"
#include "cli/verbs.h"

namespace tessera::cli {
namespace {

report::StageMemory memory_of(const plan::StagePrediction& s, const plan::Hardware& hardware) {
  const compile::MemoryPlan& m = s.memory;
  const auto bytes = [](int64_t n) { return real_product(1, n); };
  report::StageMemory memory;
  memory.parts = {
      {"weights", bytes(m.weights)},
      {"optimizer", bytes(m.optimizer)},
      {"gradients", bytes(m.gradients)},
      {"activations", bytes(m.activations)},
      {"other", bytes(m.other)},
      {"outside the arena", bytes(plan::outside_bytes(hardware.device, m.communicators))}};
  memory.peak = bytes(s.peak_bytes);
  return memory;
}

}  // namespace

report::PlanPage page_of_step(const plan::Subject& subject, const std::vector<Program>& stages,
                              const plan::Prediction& p, const plan::Hardware& hardware,
                              const plan::Software& software) {
  report::PlanPage page;
  page.version = version();
  page.title = subject.model;
  page.about = fmt::format("{} on {} · limited by {}", counted(p.devices, "device"),
                           hardware.device.name, plan::limit_of(p, hardware));
  page.facts = {{"step", step_text(p.step_s)},
                {"tokens per second", amount_text(p.tokens_per_s())},
                {"MFU, of the " + plan::peak_text(p), percent_text(p.mfu())},
                {"with recomputation", percent_text(p.hfu())},
                {"memory of the fullest rank", bytes_text(p.fullest().peak_bytes)},
                {"fits", plan::fits(p, hardware) ? "yes" : "no"}};
  if (p.host_bytes() > 0)
    page.facts.emplace_back("host memory of a rank", bytes_text(p.host_bytes()));
  if (subject.token_budget > 0) {
    page.facts.emplace_back("to train on " + amount_text(subject.token_budget) + " tokens",
                            run_text(subject.token_budget / p.tokens_per_s()));
    if (p.usd_per_device_hour > 0)
      page.facts.emplace_back("cost of the run", price_text(p.usd(subject.token_budget)));
  }
  page.step_s = p.step_s;
  page.time = plan::named_parts(p);
  for (const plan::StagePrediction& s : p.stages) page.stages.push_back(memory_of(s, hardware));
  page.usable_bytes = plan::usable_bytes(hardware.device);
  page.timeline_svg = plan::draw(stages, plan::timeline_of(stages, hardware, software));
  page.timeline_colors = plan::colors_of_draw();
  return page;
}

report::SearchedLayouts searched_layouts(const LayoutSearchRun& searched) {
  const plan::SearchResult& r = searched.result;
  report::SearchedLayouts out;
  for (const plan::SimulatedLayout& l : r.fitting)
    out.layouts.push_back({plan::text_of(l.candidate), keys_of(l.candidate), l.step_s,
                           real_product(1, l.peak_bytes), l.mfu});
  out.left_out = {
      {"need more memory than a device has, by a lower bound", r.too_large},
      {fmt::format("take longer than the {} fastest, by a lower bound", r.best.size()), r.too_slow},
      {"compiled in full, and do not fit", r.simulated - std::ssize(r.fitting)}};
  out.seconds = fmt::format("{:.1f} s", searched.seconds);
  return out;
}

}  // namespace tessera::cli
