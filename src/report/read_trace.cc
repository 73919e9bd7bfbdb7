// Reads trace.json record by record: one timeline per rank, and the time of each kind of op.
//
// The document is split at the braces of its records, so a large or truncated file needs little
// memory and loses only the record at which it ends.
#include <algorithm>
#include <map>

#include "base/real.h"
#include "base/tree.h"
#include "ir/names.h"
#include "ir/op.h"
#include "ir/phase.h"
#include "report/run_data.h"

namespace tessera::report {
namespace {

// A timeline shows at most this many intervals per row; neighbors that are closer are merged.
constexpr double kResolution = 1500;

// Calls f(record) for each {…} in the array "traceEvents". Returns false if the text ends within
// one.
template <class F>
bool for_each_record(std::string_view text, const F& f) {
  size_t at = text.find("\"traceEvents\":[");
  if (at == std::string_view::npos) return false;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (at += 15; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{') {
      if (depth++ == 0) begin = at;
    } else if (c == '}') {
      if (--depth == 0) f(text.substr(begin, at + 1 - begin));
    } else if (c == ']' && depth == 0) {
      return true;
    }
  }
  return false;
}

double number_of(const Tree* tree) { return tree ? number_in(*tree).value_or(0) : 0; }

bool is_layer(std::string_view part) {
  return part.starts_with("layer ") && part.find('.') == std::string_view::npos;
}

// Returns the phase of a segment by its name, "forward.layer"; kJoint for "head".
Phase phase_of(std::string_view segment) {
  Phase best = Phase::kJoint;
  for (const Phase p : Enumerators<Phase>()) {
    const std::string_view name = name_of(p);
    const bool is_it =
        segment.starts_with(name) && (segment.size() == name.size() || segment[name.size()] == '.');
    if (!name.empty() && is_it && name.size() > name_of(best).size()) best = p;
  }
  return best;
}

// `origin` is "layer 7, backward.layer, layer.attn.qkv", or the same without the layer.
Activity activity_of(std::string_view origin, std::string_view queue) {
  if (queue != name_of(Queue::kCompute)) return Activity::kTransfer;
  size_t comma = origin.find(", ");
  if (comma != std::string_view::npos && is_layer(origin.substr(0, comma))) {
    origin.remove_prefix(comma + 2);
    comma = origin.find(", ");
  }
  switch (phase_of(origin.substr(0, comma))) {
    case Phase::kForward:
    case Phase::kForwardNoSave:
      return Activity::kForward;
    case Phase::kJoint:
      return Activity::kHead;
    case Phase::kBackward:
    case Phase::kWeightBackward:
      return Activity::kBackward;
    case Phase::kRecompute:
      return Activity::kRecompute;
    case Phase::kSquares:
    case Phase::kClip:
    case Phase::kMeasure:
    case Phase::kFactor:
    case Phase::kDirection:
    case Phase::kOrthogonalize:
    case Phase::kUpdate:
      return Activity::kUpdate;
    case Phase::kPack:
    case Phase::kClear:
    case Phase::kKeepSent:
    case Phase::kReleaseSent:
      return Activity::kOther;
    default:
      return Activity::kTransfer;
  }
}

class TraceReader {
 public:
  // Throws Error for a record that is not one of a trace.
  void read(std::string_view record, const std::string& source) {
    const Tree tree = parse_json(record, source);
    const Tree* const process = tree.find("pid");
    const auto* const rank = process ? std::get_if<int64_t>(&process->value) : nullptr;
    if (text_or_empty(tree.find("ph")) == "M") {
      const Tree* const arguments = tree.find("args");
      if (text_or_empty(tree.find("name")) == "process_name" && arguments)
        add_title(text_or_empty(arguments->find("name")));
      return;
    }
    if (text_or_empty(tree.find("ph")) != "X") return;
    if (!rank) throw Error("{}: a bar has no integer 'pid', the number of its rank", source);
    add_bar(tree, *rank);
  }

  // Merges neighbors, sums the time of each op, and adds the time in which no op runs.
  Trace finish();

 private:
  // "rank 0 of 2, step 8 of slow" → "step 8 of slow"
  void add_title(std::string title) {
    const size_t step = title.find("step ");
    if (trace_.title.empty() && step != std::string::npos) trace_.title = title.substr(step);
  }

  void add_bar(const Tree& tree, int64_t rank) {
    const Tree* const arguments = tree.find("args");
    const std::string queue = text_or_empty(tree.find("cat"));
    const double start = number_of(tree.find("ts")) * 1e-6;
    const double duration = number_of(tree.find("dur")) * 1e-6;
    trace_.duration_s = std::max(trace_.duration_s, start + duration);
    const std::string origin = text_or_empty(arguments ? arguments->find("origin") : nullptr);
    const Activity activity = activity_of(origin, queue);
    rows_[rank][queue].push_back({activity, start, duration});
    if (queue != name_of(Queue::kCompute)) return;
    // A plan has one number each for what is recomputed and for the optimizer.
    const bool is_part = activity == Activity::kRecompute || activity == Activity::kUpdate;
    OpShare& op = ops_[is_part ? std::string(name_of(activity)) : text_or_empty(tree.find("name"))];
    op.seconds += duration;
    ++op.calls;
    const double share = number_of(arguments ? arguments->find("share_of_limit") : nullptr);
    op.limit_s += share * duration;
    computing_s_ += duration;
  }

  Trace trace_;
  std::map<int64_t, std::map<std::string, std::vector<TraceBar>>> rows_;
  std::map<std::string, OpShare> ops_;
  double computing_s_ = 0;
};

std::vector<TraceBar> merged(std::vector<TraceBar> bars, double gap_s) {
  std::stable_sort(bars.begin(), bars.end(),
                   [](const TraceBar& a, const TraceBar& b) { return a.start_s < b.start_s; });
  std::vector<TraceBar> kept;
  for (const TraceBar& b : bars) {
    const bool joins = !kept.empty() && kept.back().activity == b.activity &&
                       b.start_s - (kept.back().start_s + kept.back().duration_s) < gap_s;
    if (!joins) {
      kept.push_back(b);
      continue;
    }
    TraceBar& last = kept.back();
    last.duration_s = std::max(last.duration_s, b.start_s + b.duration_s - last.start_s);
  }
  return kept;
}

Trace TraceReader::finish() {
  const double gap_s = trace_.duration_s / kResolution;
  for (auto& [rank, queues] : rows_) {
    TraceRank& r = trace_.ranks.emplace_back(TraceRank{rank, {}});
    for (auto& [queue, bars] : queues) r.rows.push_back({queue, merged(std::move(bars), gap_s)});
    // The compute queue is the first row.
    std::stable_partition(r.rows.begin(), r.rows.end(), [](const TraceRow& row) {
      return row.queue == name_of(Queue::kCompute);
    });
  }
  if (trace_.ranks.empty()) return std::move(trace_);
  const int64_t ranks = std::ssize(trace_.ranks);
  for (auto& [name, op] : ops_)
    trace_.ops.push_back({name, ratio(op.seconds, ranks), ratio(op.limit_s, ranks), op.calls});
  std::sort(trace_.ops.begin(), trace_.ops.end(),
            [](const OpShare& a, const OpShare& b) { return a.seconds > b.seconds; });
  trace_.ops.push_back(
      {std::string(kWaiting), std::max(0.0, trace_.duration_s - ratio(computing_s_, ranks)), 0, 0});
  return std::move(trace_);
}

}  // namespace

void read_trace(const Path& file, RunData& run) {
  if (!std::filesystem::exists(file)) return;
  TraceReader reader;
  std::string problem;
  int64_t damaged = 0;
  try {
    const MappedFile mapped(file);
    const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()),
                                mapped.bytes().size());
    const bool whole = for_each_record(text, [&](std::string_view record) {
      try {
        reader.read(record, file.string());
      } catch (const Error& e) {
        if (damaged++ == 0) problem = e.what();
      }
    });
    if (!whole)
      run.left_out.push_back(
          fmt::format("{}: is not a complete trace. The timeline shows the records before its end.",
                      file.string()));
  } catch (const Error& e) {
    run.left_out.push_back(e.what());
    return;
  }
  if (damaged > 0)
    run.left_out.push_back(fmt::format("{}. {} damaged record{} left out.", problem, damaged,
                                       damaged == 1 ? " is" : "s are"));
  Trace trace = reader.finish();
  if (!trace.ranks.empty()) run.trace = std::move(trace);
}

}  // namespace tessera::report
