// A rank that trains nothing: reports like one, and fails as it is told.
//   fake_rank RUN [steps=N] [at=RANK:STEP:WHAT] [folder=F] [long_line=BYTES]
// WHAT: kill, stop, exit, error, mute (lives on and says nothing), version, config, clock. With
// folder=F the step is stored in F/step, and the next start continues after it. With
// long_line=BYTES rank 0 first prints that many '#' in one line. mpirun starts it.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "launch/heartbeat.h"

namespace tessera::launch {
namespace {

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int number(const std::string& text) { return std::atoi(text.c_str()); }

struct Task {
  std::map<std::string, std::string> keys;
  int rank = 0, ranks = 1, bad_rank = -1, bad_step = 0;
  std::string what;

  bool now(int step, const char* kind) const {
    return rank == bad_rank && step == bad_step && what == kind;
  }
};

Task read_task(int argc, char** argv) {
  Task t;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t is = word.find('=');
    t.keys[word.substr(0, is)] = word.substr(is + 1);
  }
  t.rank = number(std::getenv("OMPI_COMM_WORLD_RANK"));
  t.ranks = number(std::getenv("OMPI_COMM_WORLD_SIZE"));
  if (const std::string at = t.keys["at"]; !at.empty()) {
    const size_t a = at.find(':'), b = at.find(':', a + 1);
    t.bad_rank = number(at.substr(0, a));
    t.bad_step = number(at.substr(a + 1, b - a - 1));
    t.what = at.substr(b + 1);
  }
  return t;
}

HeartbeatOptions options_of(const Task& t) {
  HeartbeatOptions o;
  o.monitor = parse_endpoint(std::getenv(kEndpointVariable));
  o.hello.rank = t.rank;
  o.hello.ranks = t.ranks;
  o.hello.host = "n0" + std::to_string(t.rank / 2 + 1);
  o.hello.pid = getpid();
  o.hello.version = t.now(0, "version") ? "0.1.1" : "0.1.0";
  o.now_s = steady_s;
  o.wall_s = [ahead = t.now(0, "clock") ? 35.0 : 0.0] {
    return ahead + static_cast<double>(::time(nullptr));
  };
  o.end_process = [](const std::string& why) {
    if (!why.empty()) fmt::print(stderr, "ends: {}\n", why);
    std::fflush(stderr);
    _exit(1);
  };
  return o;
}

void misbehave(const Task& t, int step, Heartbeat& heartbeat) {
  if (t.now(step, "kill")) ::raise(SIGKILL);
  if (t.now(step, "stop")) ::raise(SIGSTOP);
  if (t.now(step, "exit")) {
    fmt::print(stderr, "something unforeseen\n");
    std::fflush(stderr);
    _exit(3);
  }
  if (t.now(step, "error")) {
    heartbeat.fail("the disk is full");
    _exit(1);
  }
}

int run(const Task& t) {
  if (t.now(0, "kill")) ::raise(SIGKILL);
  const auto began = std::chrono::steady_clock::now();
  Heartbeat heartbeat(options_of(t));
  heartbeat.facts(t.now(0, "config") ? R"({"batch":{"global":16,"micro":1}})"
                                     : R"({"batch":{"global":8,"micro":1}})");
  const Path state = t.keys.contains("folder") ? Path(t.keys.at("folder")) / "step" : Path();
  int step = state.empty() || !std::filesystem::exists(state) ? 0 : number(read_file(state));
  const int steps = t.keys.contains("steps") ? number(t.keys.at("steps")) : 10;
  if (t.rank == 0) fmt::print("from step {}\n", step);
  if (t.rank == 0 && t.keys.contains("long_line"))
    fmt::print("{}\n", std::string(static_cast<size_t>(number(t.keys.at("long_line"))), '#'));
  for (++step; step <= steps && !heartbeat.asked_to_stop(); ++step) {
    heartbeat.say(step, "forward of layer 3");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    misbehave(t, step, heartbeat);
    heartbeat.say(step, "all_reduce of gradients over data", true);
    // The others wait here for one that never comes.
    if (t.bad_rank >= 0 && step == t.bad_step && t.rank != t.bad_rank)
      std::this_thread::sleep_for(std::chrono::seconds(60));
    if (t.rank == 0 && !state.empty()) write_file(state, std::to_string(step));
  }
  heartbeat.leave();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (t.rank == 0) fmt::print("left at step {} after {:.1f} s\n", step - 1, took.count());
  return 0;
}

}  // namespace
}  // namespace tessera::launch

int main(int argc, char** argv) {
  try {
    return tessera::launch::run(tessera::launch::read_task(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
