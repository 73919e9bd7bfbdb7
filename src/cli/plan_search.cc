// Prints the results of a layout search, and applies the best layout to a run (`layout.search:
// true`). The search itself, which is exhaustive with proven bounds, is in plan/search.h.
#include "cli/plan_search.h"

#include <algorithm>
#include <ctime>
#include <optional>
#include <sstream>

#include "base/config.h"
#include "base/count.h"
#include "base/error.h"
#include "base/real.h"
#include "base/tree.h"
#include "cli/checkpoint_file.h"
#include "cli/machine_files.h"
#include "cli/run_file.h"
#include "cli/show.h"
#include "cli/status_line.h"
#include "plan/explain.h"
#include "plan/predict.h"
#include "train/run_programs.h"

namespace tessera::cli {
namespace {

// Without a larger layout.context, a search considers degrees that leave a rank this many tokens of
// each sequence. Shorter sequences fit on one rank.
constexpr int64_t kTokensPerContextRank = 4096;

// Returns the CPU time of this process, in seconds. It measures the cost of the search
// independently of the load of the machine.
double processor_s() { return ratio(std::clock(), CLOCKS_PER_SEC); }

[[noreturn]] void nothing_fits(const plan::SearchResult& r, int64_t devices,
                               const plan::Hardware& hardware,
                               const std::optional<plan::LeastDevices>& least = {}) {
  std::string text = fmt::format("none of {} layouts on {} devices fits in {:.1f} GiB.",
                                 format_count(r.candidates), format_count(devices),
                                 gib(plan::usable_bytes(hardware.device)));
  if (r.smallest_bytes > 0)
    text +=
        fmt::format(" The smallest needs at least {} per device.", bytes_text(r.smallest_bytes));
  if (!least) throw Error("{} Use more devices, or a smaller model.", text);
  throw Error(
      "{} The smallest that fits: {} devices, layout.tensor={} layout.pipeline={} "
      "layout.recompute=full batch.micro=1, {} per device.",
      text, least->devices, least->tensor, least->pipeline, bytes_text(least->peak_bytes));
}

void print_json(const plan::SearchResult& r, const plan::Hardware& hardware, double seconds) {
  Tree t, best = Tree::list();
  t.set("candidates", Tree(r.candidates));
  t.set("too_large", Tree(r.too_large));
  t.set("too_slow", Tree(r.too_slow));
  t.set("simulated", Tree(r.simulated));
  t.set("search_s", Tree(seconds));
  for (const plan::RankedLayout& f : r.best) {
    Tree one = plan::as_tree(f.prediction, hardware, f.candidate.layout);
    one.set("micro", Tree(f.candidate.micro));
    one.set("keys", Tree(keys_of(f.candidate)));
    best.push(std::move(one));
  }
  t.set("best", std::move(best));
  fmt::print("{}\n", to_json(t));
}

plan::SearchResult search_with_progress(plan::SearchRequest request, const Target& target,
                                        const plan::Hardware& hardware,
                                        const plan::Software& software) {
  StatusLine status;
  request.progress = [&status](const plan::SearchResult& so_far, int64_t open) {
    if (status.is_due())
      status.show(fmt::format("searching {} layouts: {} simulated, {} open",
                              format_count(so_far.candidates), format_count(so_far.simulated),
                              format_count(open)));
  };
  return plan::search(request, target, hardware, software);
}

// Prints the best layouts. Consecutive layouts with the same printed figures become one row.
void print_rows(const std::vector<plan::RankedLayout>& best) {
  const auto figures = [](const plan::Prediction& p) {
    return fmt::format("  {:>9}  {:>9}  {:>7}", step_text(p.step_s),
                       bytes_text(p.fullest().peak_bytes), percent_text(p.mfu()));
  };
  show("       step     memory    MFU (of the {})\n", plan::peak_text(best[0].prediction));
  for (size_t i = 0; i < best.size();) {
    const plan::Prediction& p = best[i].prediction;
    const std::string row = figures(p);
    size_t end = i + 1;
    while (end < best.size() && figures(best[end].prediction) == row) ++end;
    const int64_t host = p.host_bytes();
    show("{}  {}{}{}\n", row, plan::text_of(best[i].candidate),
         host == 0 ? "" : fmt::format(" ({} on the host)", bytes_text(host)),
         end == i + 1 ? "" : fmt::format(" (and {} more)", end - i - 1));
    i = end;
  }
}

// Prints why the next slower layout is slower than the fastest one.
void print_next(const std::vector<plan::RankedLayout>& best) {
  const plan::Prediction& first = best[0].prediction;
  const auto slower = std::find_if(best.begin(), best.end(), [&](const plan::RankedLayout& f) {
    return step_text(f.prediction.step_s) != step_text(first.step_s);
  });
  if (slower == best.end()) return;
  show("{} takes {} longer:\n", plan::text_of(slower->candidate),
       step_text(slower->prediction.step_s - first.step_s));
  for (const std::string& line : plan::differences(slower->prediction, first)) show("  {}\n", line);
}

void print_page(const plan::SearchResult& r, double seconds) {
  fmt::print(
      "{} layouts: {} cannot fit and {} are slower, according to bounds; {} simulated in full "
      "({} of them fit) in {:.1f} s\n",
      format_count(r.candidates), format_count(r.too_large), format_count(r.too_slow), r.simulated,
      r.fitting.size(), seconds);
  print_rows(r.best);
  print_next(r.best);
  show("use it:  {}\n", keys_of(r.best[0].candidate));
}

}  // namespace

std::string keys_of(const plan::Candidate& c) {
  constexpr const char* kSchedules[] = {"gpipe", "1f1b", "interleaved_1f1b", "zero_bubble"};
  const compile::Layout& l = c.layout;
  const std::string context = fmt::format("layout.context_method={} layout.context_balance={} ",
                                          name_of_entry(l.context_method), l.context_balance);
  const std::string keys = fmt::format(
      "layout.tensor={} layout.context={} {}layout.pipeline={} layout.data={} layout.expert={} "
      "batch.micro={} "
      "layout.interleave={} layout.pipeline_schedule={} layout.sequence_parallel={} layout.zero={} "
      "layout.recompute={}",
      l.tensor, l.context, l.context > 1 ? context : "", l.pipeline, l.data, l.expert, c.micro,
      l.interleave, kSchedules[static_cast<size_t>(l.pipeline_schedule)], l.sequence_parallel,
      l.zero, l.recompute);
  return l.offload == "none" ? keys : keys + fmt::format(" layout.offload={}", l.offload);
}

plan::SearchRequest search_request(const config::RunConfig& config, const plan::Software& software,
                                   int64_t devices) {
  plan::SearchRequest asked;
  asked.base =
      plan::as_compiled_by(software, config::compile_request(config, compile::ProgramKind::kTrain));
  asked.devices = devices;
  asked.global = config.batch.global;
  asked.ramp = config.batch.warmup_sizes;
  asked.most_context =
      std::max(config.layout.context, config.data.sequence_length / kTokensPerContextRank);
  return asked;
}

config::RunConfig with_found_layout(const std::string& run, std::vector<std::string> overrides,
                                    config::RunConfig config, int64_t ranks, bool small) {
  if (!config.layout_search.search) return config;
  const plan::Hardware hardware = open_cluster(config.layout_search.cluster);
  config::RunConfig resolved = config;
  const CpuFeatures cpu = read_cpu_features();
  train::resolve_machine(resolved, cpu);
  train::resolve_sizes(resolved);
  runtime::PreparedKernels kernels(cpu, threads_or_all(config.run.threads));
  const plan::SearchResult found =
      plan::search(search_request(resolved, {}, ranks), kernels.target(), hardware, {});
  if (found.best.empty()) nothing_fits(found, ranks, hardware);
  // The keys are applied to the original run, not to `resolved`, because values that depend on the
  // layout must be resolved again. Explicit stages would belong to another layout.
  std::istringstream keys(keys_of(found.best[0].candidate));
  for (std::string key; keys >> key;) overrides.push_back(key);
  overrides.push_back("layout.stages=[]");
  return open_run(run, overrides, small);
}

LayoutSearchRun search_layouts(const plan::SearchRequest& request, const Target& target,
                               const plan::Hardware& hardware, const plan::Software& software,
                               bool json) {
  const double start = processor_s();
  plan::SearchResult r = search_with_progress(request, target, hardware, software);
  const double seconds = processor_s() - start;
  if (r.best.empty()) {
    const auto least = plan::least_devices(request.base, hardware, software, target);
    nothing_fits(r, request.devices, hardware, least);
  }
  if (json)
    print_json(r, hardware, seconds);
  else
    print_page(r, seconds);
  return {std::move(r), seconds};
}

}  // namespace tessera::cli
