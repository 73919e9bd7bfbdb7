// Writes Chrome's trace event format ("Trace Event Format", Google): records of phase X are
// complete events with start and duration in microseconds; records of phase M name a process (pid,
// here a rank) and its rows (tid, here a queue).
#include "train/trace.h"

#include <algorithm>
#include <vector>

#include "base/tree.h"

namespace tessera::train {
namespace {

// Returns the record that names the process or one of its rows.
Tree name_record(const char* what, int64_t process, int64_t row, const std::string& name) {
  Tree arguments = Tree::object();
  arguments.set("name", Tree(name));
  Tree record = Tree::object();
  record.set("name", Tree(std::string(what)));
  record.set("ph", Tree(std::string("M")));
  record.set("pid", Tree(process));
  record.set("tid", Tree(row));
  record.set("args", std::move(arguments));
  return record;
}

Tree bar(const TraceEvent& e, const TraceProcess& process, int64_t row) {
  Tree arguments = Tree::object();
  arguments.set("origin", Tree(e.origin));
  arguments.set("bytes", Tree(e.bytes));
  arguments.set("flops", Tree(e.flops));
  if (e.duration_s > 0) {
    arguments.set("gb_per_s", Tree(static_cast<double>(e.bytes) / e.duration_s / 1e9));
    arguments.set("gflop_per_s", Tree(e.flops / e.duration_s / 1e9));
  }
  if (e.share_of_limit > 0) arguments.set("share_of_limit", Tree(e.share_of_limit));
  Tree record = Tree::object();
  record.set("name", Tree(e.op));
  record.set("cat", Tree(e.queue));
  record.set("ph", Tree(std::string("X")));
  record.set("ts", Tree((e.start_s - process.origin_s) * 1e6));
  record.set("dur", Tree(e.duration_s * 1e6));
  record.set("pid", Tree(process.number));
  record.set("tid", Tree(row));
  record.set("args", std::move(arguments));
  return record;
}

}  // namespace

std::string chrome_records(std::span<const TraceEvent> events, const TraceProcess& process) {
  std::vector<std::string> queues;  // in the order of first use
  std::string records = to_json(name_record("process_name", process.number, 0, process.title));
  for (const TraceEvent& e : events) {
    auto at = std::find(queues.begin(), queues.end(), e.queue);
    if (at == queues.end()) {
      at = queues.insert(queues.end(), e.queue);
      const auto row = std::ssize(queues) - 1;
      records += ',';
      records += to_json(name_record("thread_name", process.number, row, e.queue));
    }
    records += ',';
    records += to_json(bar(e, process, at - queues.begin()));
  }
  return records;
}

std::string chrome_trace(std::span<const std::string> records) {
  std::string document(kTraceBegin);
  for (size_t i = 0; i < records.size(); ++i) {
    if (i > 0) document += ',';
    document += records[i];
  }
  return document + "]}";
}

}  // namespace tessera::train
