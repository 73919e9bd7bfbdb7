// A program that we start and whose output we read: in a process group of its own (Ctrl-C reaches
// us, and we tell it), told to end if we die.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/socket.h"

namespace tessera::launch {

class Child {
 public:
  // `environment`: NAME=VALUE, added to ours. Throws Error where the program cannot be started.
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  ~Child();  // ends what still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const Descriptor& out() const { return out_; }
  const Descriptor& err() const { return err_; }
  // The exit code, or 128 + the signal as a shell says it, once it has ended.
  std::optional<int> ended();
  void signal(int number);      // to the program
  void signal_all(int number);  // to its group

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
