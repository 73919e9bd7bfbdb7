// Writes the states of the ranks as JSON.
#include "launch/rank_states.h"

#include <algorithm>
#include <fstream>

#include "base/tree.h"

namespace tessera::launch {
namespace {

constexpr double kMinPeriod_s = 1;

const char* name_of(RankState::Phase phase) {
  switch (phase) {
    case RankState::Phase::kAwaited:
      return "awaited";
    case RankState::Phase::kAlive:
      return "runs";
    case RankState::Phase::kFailed:
      return "failed";
    case RankState::Phase::kDied:
      return "died";
    case RankState::Phase::kLeft:
      return "left";
  }
  return "";
}

}  // namespace

std::string to_json(std::span<const RankState> ranks, double clock_s) {
  Tree list = Tree::list();
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankState& r = ranks[i];
    const double silent_s = std::max(0.0, clock_s - r.heard_s);
    Tree t = Tree::object();
    t.set("rank", Tree(static_cast<int64_t>(i)));
    t.set("host", Tree(r.hello.host));
    t.set("pid", Tree(r.hello.pid));
    t.set("state", Tree(std::string(name_of(r.phase))));
    t.set("step", Tree(r.beat.step));
    t.set("doing", Tree(r.beat.text));
    t.set("since_s", Tree(r.beat.since_s + silent_s));
    t.set("waits", Tree(r.beat.waits));
    t.set("resident_bytes", Tree(r.beat.resident_bytes));
    t.set("silent_s", Tree(silent_s));
    list.push(std::move(t));
  }
  Tree root = Tree::object();
  root.set("ranks", std::move(list));
  return tessera::to_json(root) + "\n";
}

// The run creates its directory, and removes it if its start fails: so nothing is written before
// the first step.
void RankStateFile::write(const RankMonitor& monitor, double now_s, bool always) {
  if (path_.empty() || monitor.step() == 0) return;
  if (!always && written_s_ >= 0 && now_s - written_s_ < kMinPeriod_s) return;
  written_s_ = now_s;
  Path part = path_;
  part += ".part";
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << to_json(monitor.ranks(), monitor.clock_s());
    if (!out.flush()) return;
  }
  std::error_code ignored;
  std::filesystem::rename(part, path_, ignored);
}

void RankStateFile::remove() const {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove(path_, ignored);
}

}  // namespace tessera::launch
