// The states of all ranks, as their messages to the monitor report them, in a file for `tessera
// watch`:
//
//   {"ranks":[{"rank":0,"host":"n01","pid":17,"state":"runs","step":12,"doing":"backward.layer …",
//              "since_s":0.3,"waits":false,"resident_bytes":…,"silent_s":0.2},…]}
//
// "state" is one of awaited, runs, failed, died, left. "since_s" is the time since the activity
// began, "silent_s" the time since the last message.
#pragma once

#include <span>
#include <string>

#include "base/file.h"
#include "launch/rank_monitor.h"

namespace tessera::launch {

// `clock_s` is the time on RankMonitor's clock.
std::string to_json(std::span<const RankState> ranks, double clock_s);

// Replaces the file at most once per second, as a best effort: errors are ignored, and nothing is
// flushed to the disk.
class RankStateFile {
 public:
  explicit RankStateFile(Path path) : path_(std::move(path)) {}  // empty: nothing is written

  void write(const RankMonitor& monitor, double now_s, bool always);
  void remove() const;

 private:
  Path path_;
  double written_s_ = -1;
};

}  // namespace tessera::launch
