#include "plan/predict.h"

#include <algorithm>
#include <set>

#include "model/presets.h"
#include "plan/search_bound.h"
#include "plan/simulate.h"

namespace tessera {
namespace {

// Calls beyond which a neighbour would make people wait.
constexpr int64_t kMostCalls = 400'000;

int64_t global_batch(const CompileRequest& r) {
  return r.sequences * r.layout.data * r.microbatches;
}

// Another division of the same devices and sequences; false where it does not come out even.
bool divide(CompileRequest& r, const CompileRequest& from) {
  const int64_t together = r.sequences * r.layout.data;
  if (together == 0 || global_batch(from) % together != 0) return false;
  r.microbatches = global_batch(from) / together;
  r.layout.stages.clear();
  return true;
}

class Neighbours {
 public:
  explicit Neighbours(const CompileRequest& from) : from_(from) {}

  template <class Change>
  void add(const std::string& keys, Change change) {
    CompileRequest r = from_;
    change(r);
    if (divide(r, from_)) all.push_back({keys, std::move(r)});
  }

  // Twice as many ranks on one axis, half as many on another.
  void exchange(const char* more, int64_t Layout::*up, const char* less, int64_t Layout::*down) {
    if (from_.layout.*down % 2 != 0) return;
    const int64_t a = from_.layout.*up * 2, b = from_.layout.*down / 2;
    add(fmt::format("layout.{}={} layout.{}={}", more, a, less, b), [&](CompileRequest& r) {
      r.layout.*up = a;
      r.layout.*down = b;
    });
  }

  std::vector<Neighbour> all;

 private:
  const CompileRequest& from_;
};

// Whether a neighbour may fit and be fast enough, by what is proved without its schedule.
class Promise {
 public:
  Promise(const CompileRequest& request, const Hardware& hardware, const Software& software,
          const Target& target, double below_s)
      : hardware_(hardware), below_s_(below_s) {
    search_.base = as_compiled_by(software, request);
    search_.devices = mesh_of(request.layout).ranks();
    search_.global = global_batch(request);
    bounds_.emplace(search_, target, hardware, software);
  }

  // Throws Error for what is no layout of the model.
  bool holds(const CompileRequest& r) {
    const std::string& again = r.layout.recompute;
    const bool known = again == "none" || again == "selective" || again == "full";
    if (!known || r.model.encoder_layers > 0) return true;
    const Bound b = bounds_->closer({r.layout, r.sequences});
    const double bytes = static_cast<double>(b.bytes) + hardware_.device.outside_bytes;
    return bytes <= hardware_.device.memory_bytes &&
           static_cast<double>(b.step_ns) < 1e9 * below_s_;
  }

 private:
  const Hardware& hardware_;
  double below_s_;
  SearchRequest search_;
  std::optional<Bounds> bounds_;  // refers to search_
};

// The fullest of the stages that can be: the ends hold embedding and head, the first most
// micro-batches, and a stage between them may have a layer more.
int64_t peak_of(CompileRequest r, const Software& software, const Target& target,
                const Hardware& h) {
  int64_t most = 0;
  const int64_t last = r.layout.pipeline - 1;
  for (const int64_t stage : std::set<int64_t>{0, std::min<int64_t>(1, last), last / 2, last}) {
    r.stage = stage;
    most = std::max(most, compile(as_compiled_by(software, r), target).bytes);
  }
  return most + static_cast<int64_t>(h.device.outside_bytes);
}

// Bytes that weights alone take on `devices`: fewer cannot be.
bool holds_weights(int64_t devices, const CompileRequest& r, const Hardware& h) {
  const double bytes = r.precision == Precision::kFp32 ? 4 : 2;
  return bytes * static_cast<double>(parameter_count(r.model)) <=
         h.device.memory_bytes * static_cast<double>(devices);
}

// Every division of the model over `devices` by tensor ranks within a node and stages.
std::optional<LeastDevices> fit_on(int64_t devices, const CompileRequest& request,
                                   const Hardware& hardware, const Software& software,
                                   const Target& target) {
  std::optional<LeastDevices> best;
  if (!holds_weights(devices, request, hardware)) return best;
  for (int64_t t = 1; t <= std::min(devices, hardware.node.devices); t *= 2) {
    if (devices % t != 0 || devices / t > request.model.layers) continue;
    CompileRequest r = request;
    r.layout = {};
    r.layout.tensor = t;
    r.layout.pipeline = devices / t;
    r.layout.recompute = "full";
    r.sequences = 1;
    r.microbatches = r.layout.pipeline;  // as many as can be in flight
    try {
      const int64_t peak = peak_of(r, software, target, hardware);
      if (static_cast<double>(peak) <= hardware.device.memory_bytes &&
          (!best || peak < best->peak_bytes))
        best = LeastDevices{devices, t, r.layout.pipeline, peak};
    } catch (const Error&) {  // not a layout of this model
    }
  }
  return best;
}

}  // namespace

Prediction predict(const CompileRequest& request, const Hardware& hardware,
                   const Software& software, const Target& target) {
  return simulate(compile_stages(as_compiled_by(software, request), target), hardware, software);
}

std::vector<Neighbour> neighbours(const CompileRequest& request) {
  Neighbours n(request);
  const Layout& l = request.layout;
  n.exchange("tensor", &Layout::tensor, "data", &Layout::data);
  n.exchange("tensor", &Layout::tensor, "pipeline", &Layout::pipeline);
  n.exchange("pipeline", &Layout::pipeline, "data", &Layout::data);
  n.exchange("pipeline", &Layout::pipeline, "tensor", &Layout::tensor);
  n.exchange("data", &Layout::data, "tensor", &Layout::tensor);
  n.exchange("data", &Layout::data, "pipeline", &Layout::pipeline);
  for (const int64_t micro : {request.sequences * 2, request.sequences / 2})
    if (micro > 0)
      n.add(fmt::format("batch.micro={}", micro), [&](CompileRequest& r) { r.sequences = micro; });
  for (const char* recompute : {"none", "selective", "full"})
    if (l.recompute != recompute)
      n.add(fmt::format("layout.recompute={}", recompute),
            [&](CompileRequest& r) { r.layout.recompute = recompute; });
  for (const int64_t zero : {0, 1, 2, 3})
    if (l.zero != zero && l.data > 1)
      n.add(fmt::format("layout.zero={}", zero), [&](CompileRequest& r) { r.layout.zero = zero; });
  if (l.pipeline > 1 && l.interleave == 1)
    n.add("layout.pipeline_schedule=interleaved_1f1b layout.interleave=2", [](CompileRequest& r) {
      r.layout.pipeline_schedule = PipelineSchedule::kInterleaved1F1B;
      r.layout.interleave = 2;
    });
  if (l.pipeline > 1 && l.pipeline_schedule == PipelineSchedule::k1F1B)
    n.add("layout.pipeline_schedule=zero_bubble",
          [](CompileRequest& r) { r.layout.pipeline_schedule = PipelineSchedule::kZeroBubble; });
  if (l.tensor > 1)
    n.add(fmt::format("layout.sequence_parallel={}", !l.sequence_parallel),
          [](CompileRequest& r) { r.layout.sequence_parallel = !r.layout.sequence_parallel; });
  return std::move(n.all);
}

std::vector<Tried> try_neighbours(const CompileRequest& request, const Hardware& hardware,
                                  const Software& software, const Target& target, double below_s) {
  std::vector<Tried> tried;
  Promise promise(request, hardware, software, target, below_s);
  for (const Neighbour& n : neighbours(request)) {
    const int64_t calls =
        2 * n.request.microbatches * (n.request.model.layers + 2 * n.request.layout.pipeline);
    if (calls > kMostCalls) continue;
    try {
      if (!promise.holds(n.request)) continue;
      Prediction p = predict(n.request, hardware, software, target);
      const bool fits = static_cast<double>(p.fullest().peak_bytes) <= hardware.device.memory_bytes;
      if (fits && p.step_s < below_s) tried.push_back({n.keys, std::move(p)});
    } catch (const Error&) {  // not a layout of this model
    }
  }
  std::stable_sort(tried.begin(), tried.end(), [](const Tried& a, const Tried& b) {
    return a.prediction.step_s < b.prediction.step_s;
  });
  return tried;
}

std::optional<LeastDevices> least_devices(const CompileRequest& request, const Hardware& hardware,
                                          const Software& software, const Target& target) {
  const int64_t most = hardware.node.devices * request.model.layers;
  std::optional<LeastDevices> found;
  int64_t enough = 1;
  for (; enough <= most && !found; enough *= 2)
    found = fit_on(enough, request, hardware, software, target);
  if (!found) return found;
  // Between the last power of two that is too few and the first that is enough, by eighths.
  const int64_t top = enough / 2, step = std::max<int64_t>(top / 16, 1);
  for (int64_t n = top / 2 + step; n < top; n += step)
    if (auto fewer = fit_on(n, request, hardware, software, target)) return fewer;
  return found;
}

}  // namespace tessera
