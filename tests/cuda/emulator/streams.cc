#include "streams.h"

#include <algorithm>
#include <deque>
#include <set>
#include <vector>

#include "base/error.h"

namespace {

struct EventState {
  int64_t recorded = 0, over = 0;  // times enqueued, times run
  int64_t capture = 0;             // the one that it was last recorded in; 0: none
  std::set<size_t> nodes;          // of its graph, that it comes after
};

struct Task {
  std::function<void()> work;           // or
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

EmulatedStream legacy;  // which the others, all of cudaStreamNonBlocking, do not wait for
std::vector<EmulatedStream*> streams = {&legacy};
EmulatedGraph* capturing = nullptr;
EmulatedStream* origin = nullptr;
int64_t captures = 0;

EmulatedStream& stream_of(cudaStream_t s) { return s == nullptr ? legacy : *s; }

// A draw that is the same in every run of a test.
size_t draw(size_t n) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return static_cast<size_t>(state % n);
}

bool can_run(const Task& t) { return !t.awaits || t.awaits->over >= t.version; }

// One task of a stream that can go on.
void run_one() {
  std::vector<EmulatedStream*> ready;
  for (EmulatedStream* s : streams)
    if (!s->tasks.empty() && can_run(s->tasks.front())) ready.push_back(s);
  CHECK(!ready.empty(), "streams of the device wait for each other");
  EmulatedStream& s = *ready[draw(ready.size())];
  const Task t = std::move(s.tasks.front());
  s.tasks.pop_front();
  if (t.work) t.work();
  if (t.records) ++t.records->over;
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
bool is_captured(cudaStream_t s) { return stream_of(s).capture != 0; }

cudaError_t enqueue(cudaStream_t handle, std::function<void()> work) {
  EmulatedStream& s = stream_of(handle);
  if (s.capture != 0) {
    capturing->nodes.push_back({std::move(work), s.nodes});
    s.nodes = {capturing->nodes.size() - 1};
    return cudaSuccess;
  }
  // The driver would run it beside the capture; nobody here means that.
  if (capturing != nullptr) return cudaErrorStreamCaptureImplicit;
  s.tasks.push_back({std::move(work), nullptr, nullptr, 0});
  return cudaSuccess;
}

cudaError_t finish(cudaStream_t s) {
  while (!stream_of(s).tasks.empty()) run_one();
  return cudaSuccess;
}

void finish_all() {
  for (size_t i = 0; i < streams.size(); ++i) finish(streams[i]);
}

}  // namespace cuda_emulator

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;  // others wait for `legacy`
  *s = new EmulatedStream;
  streams.push_back(*s);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  cuda_emulator::finish(s);  // its work goes on in peace
  streams.erase(std::find(streams.begin(), streams.end(), s));
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (stream_of(s).capture != 0 || (s == nullptr && capturing != nullptr))
    return cudaErrorStreamCaptureUnsupported;
  return cuda_emulator::finish(s);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t e, unsigned) {
  EmulatedStream& s = stream_of(handle);
  const std::shared_ptr<EventState>& event = e->state;
  const bool of_capture = capturing != nullptr && event->capture == captures;
  if (s.capture != 0 && !of_capture) return cudaErrorStreamCaptureIsolation;
  if (of_capture) {
    s.capture = captures;
    s.nodes.insert(event->nodes.begin(), event->nodes.end());
    return cudaSuccess;
  }
  if (event->capture != 0) return cudaErrorStreamCaptureIsolation;  // of one that is over
  s.tasks.push_back({nullptr, nullptr, event, event->recorded});
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = new EmulatedEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t handle) {
  EmulatedStream& s = stream_of(handle);
  e->state->capture = s.capture;
  e->state->nodes = s.nodes;
  if (s.capture != 0) return cudaSuccess;
  ++e->state->recorded;
  s.tasks.push_back({nullptr, e->state, nullptr, 0});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (e->state->capture != 0) return cudaErrorCapturedEvent;
  while (e->state->over < e->state->recorded) run_one();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  if (e->state->capture != 0) return cudaErrorCapturedEvent;
  if (e->state->over == e->state->recorded) return cudaSuccess;
  run_one();
  return cudaErrorNotReady;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (s == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (capturing != nullptr) return cudaErrorStreamCaptureImplicit;
  capturing = new EmulatedGraph;
  origin = s;
  s->capture = ++captures;
  s->nodes.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  *graph = nullptr;
  if (capturing == nullptr || s != origin) return cudaErrorInvalidValue;
  EmulatedGraph* const g = capturing;
  const bool joined = is_joined(*g);
  capturing = nullptr;
  for (EmulatedStream* each : streams) {
    each->capture = 0;
    each->nodes.clear();
  }
  if (!joined) {
    delete g;
    return cudaErrorStreamCaptureUnjoined;
  }
  *graph = g;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t s) {
  return cuda_emulator::enqueue(s, [graph = *executable] { run_graph(graph); });
}
