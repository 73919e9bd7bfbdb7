// A child process whose output this process reads. It has a process group of its own, so Ctrl-C
// reaches only this process, which can signal the child. The kernel sends it SIGTERM if this
// process dies.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/socket.h"

namespace tessera::launch {

class Child {
 public:
  // Starts the program. `environment` has entries NAME=VALUE, which override those of this process.
  // Throws Error if the program cannot be started.
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  ~Child();  // kills the process group if the child is still running
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const Descriptor& out() const { return out_; }
  const Descriptor& err() const { return err_; }
  // Returns the exit code, or 128 + the signal number (as a shell does), after the child has ended;
  // nothing while it is running.
  std::optional<int> ended();
  void signal(int number);      // signals the child
  void signal_all(int number);  // signals its process group

 private:
  pid_t pid_ = -1;
  Descriptor out_, err_;
  std::optional<int> code_;
};

struct CommandOutput {
  int code = 0;  // as Child::ended()
  std::string out, err;
};

// Runs a program to its end. The arguments reach it unchanged: no shell parses them. Throws Error
// if it cannot be started.
CommandOutput run_command(const std::vector<std::string>& command);

}  // namespace tessera::launch
