#include "cli/plan_search.h"

#include <ctime>

#include "base/count.h"
#include "base/error.h"
#include "base/tree.h"
#include "plan/explain.h"

namespace tessera {
namespace {

constexpr double kGiB = 1 << 30;

double gib(int64_t bytes) { return static_cast<double>(bytes) / kGiB; }

// Of this thread.
double processor_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The keys of a run file that give this layout.
std::string keys_of(const Candidate& c) {
  constexpr const char* kSchedules[] = {"gpipe", "1f1b", "interleaved_1f1b", "zero_bubble"};
  const Layout& l = c.layout;
  return fmt::format(
      "layout.tensor={} layout.pipeline={} layout.data={} batch.micro={} layout.interleave={} "
      "layout.pipeline_schedule={} layout.sequence_parallel={} layout.zero={} layout.recompute={}",
      l.tensor, l.pipeline, l.data, c.micro, l.interleave,
      kSchedules[static_cast<size_t>(l.pipeline_schedule)], l.sequence_parallel, l.zero,
      l.recompute);
}

void print_json(const SearchResult& r, const Hardware& hardware, double seconds) {
  Tree t, best = Tree::list();
  t.set("candidates", Tree(r.candidates));
  t.set("too_large", Tree(r.too_large));
  t.set("too_slow", Tree(r.too_slow));
  t.set("simulated", Tree(r.simulated));
  t.set("search_s", Tree(seconds));
  for (const Found& f : r.best) {
    Tree one = as_tree(f.prediction, hardware, f.candidate.layout);
    one.set("micro", Tree(f.candidate.micro));
    one.set("keys", Tree(keys_of(f.candidate)));
    best.push(std::move(one));
  }
  t.set("best", std::move(best));
  fmt::print("{}\n", to_json(t));
}

void print_page(const SearchResult& r, double seconds) {
  fmt::print(
      "{} layouts: {} do not fit by their bound, {} are slower by theirs, {} simulated in full "
      "({} of them fit) in {:.1f} s\n",
      format_count(r.candidates), format_count(r.too_large), format_count(r.too_slow), r.simulated,
      r.fit, seconds);
  for (const Found& f : r.best)
    fmt::print("  {:>9.4g} s  {:>6.1f} GiB  {:>5.1f} % MFU  {}\n", f.prediction.step_s,
               gib(f.prediction.fullest().peak_bytes), 100 * f.prediction.mfu(),
               text_of(f.candidate));
  if (r.best.size() > 1) {
    fmt::print("the second takes {:.3g} s more:\n",
               r.best[1].prediction.step_s - r.best[0].prediction.step_s);
    for (const std::string& line : differences(r.best[1].prediction, r.best[0].prediction))
      fmt::print("  {}\n", line);
  }
  fmt::print("use it:  {}\n", keys_of(r.best[0].candidate));
}

}  // namespace

void search_layouts(const SearchRequest& request, const Target& target, const Hardware& hardware,
                    const Software& software, bool json) {
  const double start = processor_s();
  const SearchResult r = search(request, target, hardware, software);
  const double seconds = processor_s() - start;
  if (r.best.empty())
    throw Error(
        "none of {} layouts on {} devices fits in {:.1f} GiB. The smallest needs at least {:.1f} "
        "GiB on a device: take more devices, or a smaller model.",
        format_count(r.candidates), format_count(request.devices),
        hardware.device.memory_bytes / kGiB, gib(r.smallest_bytes));
  if (json)
    print_json(r, hardware, seconds);
  else
    print_page(r, seconds);
}

}  // namespace tessera
