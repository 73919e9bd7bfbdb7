#include "streams.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"

namespace {

using Clock = std::map<int64_t, int64_t>;  // of each stream's work, how much comes before

struct EventState {
  Clock clock;
  bool timing = false;
  double over_s = 0;
  int64_t recorded = 0, over = 0;  // times enqueued, times run
  int64_t capture = 0;             // the one that it was last recorded in; 0: none
  std::set<size_t> nodes;          // of its graph, that it comes after
};

struct Task {
  std::function<bool()> work;           // whether it is done; or
  std::shared_ptr<EventState> records;  // or
  std::shared_ptr<EventState> awaits;   // its record number `version`
  int64_t version = 0;
};

struct Node {
  std::function<void()> work;
  std::set<size_t> after;
};

}  // namespace

struct EmulatedStream {
  int64_t id = 0;
  Clock clock;
  std::deque<Task> tasks;
  int64_t capture = 0;     // that it is part of
  std::set<size_t> nodes;  // that its next one comes after
};
struct EmulatedEvent {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};
struct EmulatedGraph {
  std::vector<Node> nodes;
};

namespace {

EmulatedStream legacy;  // which the others, all of gpuStreamNonBlocking, do not wait for
std::vector<EmulatedStream*> streams = {&legacy};
EmulatedGraph* capturing = nullptr;
EmulatedStream* origin = nullptr;
int64_t captures = 0;

int64_t made = 0;  // streams
Clock host;        // what the host has waited for

void join(Clock& to, const Clock& from) {
  for (const auto& [stream, count] : from) to[stream] = std::max(to[stream], count);
}
// One more piece of work of the stream.
void advance(EmulatedStream& s) {
  join(s.clock, host);
  ++s.clock[s.id];
}
double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

EmulatedStream& stream_of(gpuStream_t s) { return s == nullptr ? legacy : *s; }

// A draw that is the same in every run of a test.
size_t draw(size_t n) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return static_cast<size_t>(state % n);
}

bool can_run(const Task& t) { return !t.awaits || t.awaits->over >= t.version; }

enum class Ran { kNothing, kWaits, kDone };

// Runs one task of a stream that can continue. kNothing: there is none. kWaits: it waits for other
// ranks, and has to be run again.
Ran run_any() {
  std::vector<EmulatedStream*> ready;
  for (EmulatedStream* s : streams)
    if (!s->tasks.empty() && can_run(s->tasks.front())) ready.push_back(s);
  if (ready.empty()) return Ran::kNothing;
  EmulatedStream& s = *ready[draw(ready.size())];
  if (s.tasks.front().work && !s.tasks.front().work()) return Ran::kWaits;
  const Task t = std::move(s.tasks.front());
  s.tasks.pop_front();
  if (t.records) {
    ++t.records->over;
    t.records->over_s = now_s();
  }
  return Ran::kDone;
}
Ran run_one() {
  const Ran ran = run_any();
  CHECK(ran != Ran::kNothing, "streams of the device wait for each other");
  return ran;
}

// Runs enqueued work at once if the device is early.
void enqueued() {
  while (cuda_emulator::device_conduct.early && capturing == nullptr &&
         run_any() != Ran::kNothing) {
  }
}

// In an order that the edges allow.
void run_graph(const EmulatedGraph& g) {
  std::vector<size_t> open(g.nodes.size()), ready;
  std::vector<std::vector<size_t>> next(g.nodes.size());
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    open[i] = g.nodes[i].after.size();
    for (const size_t before : g.nodes[i].after) next[before].push_back(i);
    if (open[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[draw(ready.size())], ready.back());
    const size_t i = ready.back();
    ready.pop_back();
    g.nodes[i].work();
    for (const size_t n : next[i])
      if (--open[n] == 0) ready.push_back(n);
  }
}

// Whether all nodes come before the end of the stream that the capture began in.
bool is_joined(const EmulatedGraph& g) {
  std::vector<bool> reached(g.nodes.size());
  std::vector<size_t> left(origin->nodes.begin(), origin->nodes.end());
  while (!left.empty()) {
    const size_t i = left.back();
    left.pop_back();
    if (reached[i]) continue;
    reached[i] = true;
    left.insert(left.end(), g.nodes[i].after.begin(), g.nodes[i].after.end());
  }
  return std::all_of(reached.begin(), reached.end(), [](bool r) { return r; });
}

}  // namespace

namespace cuda_emulator {

bool is_capturing() { return capturing != nullptr; }
bool is_captured(gpuStream_t s) { return stream_of(s).capture != 0; }

gpuError_t enqueue(gpuStream_t handle, std::function<void()> work) {
  return enqueue_until(handle, [work = std::move(work)] {
    work();
    return true;
  });
}

gpuError_t enqueue_until(gpuStream_t handle, std::function<bool()> attempt) {
  EmulatedStream& s = stream_of(handle);
  advance(s);
  if (s.capture != 0) {
    const auto until_done = [attempt = std::move(attempt)] {
      while (!attempt()) {
      }
    };
    capturing->nodes.push_back({until_done, s.nodes});
    s.nodes = {capturing->nodes.size() - 1};
    return gpuSuccess;
  }
  // The driver would run it beside the capture; nobody here means that.
  if (capturing != nullptr) return gpuErrorStreamCaptureImplicit;
  s.tasks.push_back({std::move(attempt), nullptr, nullptr, 0});
  enqueued();
  return gpuSuccess;
}

Moment last_of(gpuStream_t s) { return {stream_of(s).id, stream_of(s).clock[stream_of(s).id]}; }
bool comes_after(gpuStream_t handle, const Moment& m) {
  const bool there = m.stream == 0 || std::any_of(streams.begin(), streams.end(),
                                                  [&](auto* each) { return each->id == m.stream; });
  Clock seen = stream_of(handle).clock;
  join(seen, host);
  return !there || seen[m.stream] >= m.count;
}

gpuError_t finish(gpuStream_t s) {
  while (!stream_of(s).tasks.empty()) run_one();
  join(host, stream_of(s).clock);
  return gpuSuccess;
}

void finish_all() {
  for (size_t i = 0; i < streams.size(); ++i) finish(streams[i]);
}

}  // namespace cuda_emulator

gpuError_t gpuStreamCreateWithFlags(gpuStream_t* s, unsigned flags) {
  if (flags != gpuStreamNonBlocking) return gpuErrorInvalidValue;  // others wait for `legacy`
  if (cuda_emulator::is_forked()) return gpuErrorInitializationError;
  *s = new EmulatedStream;
  (*s)->id = ++made;
  streams.push_back(*s);
  return gpuSuccess;
}
gpuError_t gpuStreamDestroy(gpuStream_t s) {
  cuda_emulator::finish(s);  // its work goes on in peace
  streams.erase(std::find(streams.begin(), streams.end(), s));
  for (EmulatedStream* each : streams) each->clock.erase(s->id);
  host.erase(s->id);
  delete s;
  return gpuSuccess;
}
gpuError_t gpuStreamSynchronize(gpuStream_t s) {
  if (stream_of(s).capture != 0 || (s == nullptr && capturing != nullptr))
    return gpuErrorStreamCaptureUnsupported;
  return cuda_emulator::finish(s);
}
gpuError_t gpuStreamWaitEvent(gpuStream_t handle, gpuEvent_t e, unsigned) {
  EmulatedStream& s = stream_of(handle);
  const std::shared_ptr<EventState>& event = e->state;
  const bool of_capture = capturing != nullptr && event->capture == captures;
  if (s.capture != 0 && !of_capture) return gpuErrorStreamCaptureIsolation;
  if (of_capture) {
    join(s.clock, event->clock);
    s.capture = captures;
    s.nodes.insert(event->nodes.begin(), event->nodes.end());
    return gpuSuccess;
  }
  if (event->capture != 0) return gpuErrorStreamCaptureIsolation;  // of one that is over
  join(s.clock, event->clock);
  s.tasks.push_back({nullptr, nullptr, event, event->recorded});
  enqueued();
  return gpuSuccess;
}
gpuError_t gpuEventCreateWithFlags(gpuEvent_t* e, unsigned flags) {
  *e = new EmulatedEvent;
  (*e)->state->timing = flags != gpuEventDisableTiming;
  return gpuSuccess;
}
gpuError_t gpuEventDestroy(gpuEvent_t e) {
  delete e;
  return gpuSuccess;
}
gpuError_t gpuEventRecord(gpuEvent_t e, gpuStream_t handle) {
  EmulatedStream& s = stream_of(handle);
  advance(s);
  e->state->clock = s.clock;
  e->state->capture = s.capture;
  e->state->nodes = s.nodes;
  if (s.capture != 0) return gpuSuccess;
  ++e->state->recorded;
  s.tasks.push_back({nullptr, e->state, nullptr, 0});
  enqueued();
  return gpuSuccess;
}
gpuError_t gpuEventElapsedTime(float* milliseconds, gpuEvent_t from, gpuEvent_t to) {
  const EventState &a = *from->state, &b = *to->state;
  if (!a.timing || !b.timing || a.capture != 0 || b.capture != 0) return gpuErrorInvalidValue;
  if (a.over < a.recorded || b.over < b.recorded) return gpuErrorNotReady;
  *milliseconds = static_cast<float>((b.over_s - a.over_s) * 1e3);
  return gpuSuccess;
}
gpuError_t gpuEventSynchronize(gpuEvent_t e) {
  if (e->state->capture != 0) return gpuErrorCapturedEvent;
  while (e->state->over < e->state->recorded) run_one();
  join(host, e->state->clock);
  return gpuSuccess;
}
gpuError_t gpuEventQuery(gpuEvent_t e) {
  if (e->state->capture != 0) return gpuErrorCapturedEvent;
  if (e->state->over == e->state->recorded) {
    join(host, e->state->clock);
    return gpuSuccess;
  }
  // The host sleeps between its questions; the device continues until it waits for other ranks.
  constexpr int kTasks = 256;
  for (int i = 0; i < kTasks && e->state->over < e->state->recorded; ++i)
    if (run_one() == Ran::kWaits) break;
  return cuda_emulator::device_conduct.last_error = gpuErrorNotReady;
}

gpuError_t gpuStreamBeginCapture(gpuStream_t s, gpuStreamCaptureMode) {
  if (s == nullptr) return gpuErrorStreamCaptureUnsupported;
  if (capturing != nullptr) return gpuErrorStreamCaptureImplicit;
  capturing = new EmulatedGraph;
  origin = s;
  s->capture = ++captures;
  s->nodes.clear();
  return gpuSuccess;
}
gpuError_t gpuStreamEndCapture(gpuStream_t s, gpuGraph_t* graph) {
  *graph = nullptr;
  if (capturing == nullptr || s != origin) return gpuErrorInvalidValue;
  EmulatedGraph* const g = capturing;
  const bool joined = is_joined(*g);
  capturing = nullptr;
  for (EmulatedStream* each : streams) {
    each->capture = 0;
    each->nodes.clear();
  }
  if (!joined) {
    delete g;
    return gpuErrorStreamCaptureUnjoined;
  }
  *graph = g;
  return gpuSuccess;
}
gpuError_t gpuStreamGetCaptureInfo(gpuStream_t s, gpuStreamCaptureStatus* status,
                                   gpuGraph_t* graph) {
  const bool active = stream_of(s).capture != 0;
  *status = active ? gpuStreamCaptureStatusActive : gpuStreamCaptureStatusNone;
  *graph = active ? capturing : nullptr;
  return gpuSuccess;
}
gpuError_t gpuGraphGetNodes(gpuGraph_t graph, gpuGraphNode_t*, size_t* count) {
  *count = graph->nodes.size();
  return gpuSuccess;
}
gpuError_t gpuGraphInstantiate(gpuGraphExec_t* executable, gpuGraph_t graph, unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  return gpuSuccess;
}
gpuError_t gpuGraphDestroy(gpuGraph_t graph) {
  delete graph;
  return gpuSuccess;
}
gpuError_t gpuGraphExecDestroy(gpuGraphExec_t executable) {
  delete executable;
  return gpuSuccess;
}
gpuError_t gpuGraphLaunch(gpuGraphExec_t executable, gpuStream_t s) {
  return cuda_emulator::enqueue(s, [graph = *executable] { run_graph(graph); });
}
