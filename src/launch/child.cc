// Starts a program with fork and exec, and reads its output through pipes. A third pipe reports a
// failed exec: it is closed by a successful exec (O_CLOEXEC), so the parent's read returns 0 bytes;
// otherwise it carries the errno.
#include "launch/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"

namespace tessera::launch {
namespace {

struct Pipe {
  Descriptor read, write;
};

Pipe new_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error("cannot create a pipe: {}", std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void read_without_waiting(const Descriptor& d) {
  ::fcntl(d.get(), F_SETFL, ::fcntl(d.get(), F_GETFL) | O_NONBLOCK);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

// Runs in the child, between fork and exec. Only async-signal-safe calls are allowed here, and no
// memory is allocated, because another thread may have held the allocator's lock during the fork.
[[noreturn]] void become(char** command, char** environment, int out, int err, int failure) {
  // A process group of its own: Ctrl-C in the terminal reaches only this process, which passes it
  // on.
  ::setpgid(0, 0);
  // If this process dies, even by SIGKILL, the kernel sends SIGTERM to the child.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);  // this process ignores it, and exec would keep that
  ::execvpe(command[0], command, environment);
  const int why = errno;
  // 126 and 127 are the codes that shells use; the parent reads the errno instead.
  if (::write(failure, &why, sizeof why) < 0) ::_exit(126);
  ::_exit(127);
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::vector<std::string> words = command, variables = environment;
  // getenv() returns the first entry of a name, so added variables override inherited ones.
  for (char** v = environ; *v != nullptr; ++v) variables.emplace_back(*v);
  const std::vector<char*> argv = pointers(words), env = pointers(variables);
  Pipe out = new_pipe(), err = new_pipe(), failure = new_pipe();
  pid_ = ::fork();
  if (pid_ < 0) throw Error("{} cannot be started: {}", command[0], std::strerror(errno));
  if (pid_ == 0)
    become(const_cast<char**>(argv.data()), const_cast<char**>(env.data()), out.write.get(),
           err.write.get(), failure.write.get());
  // With this end open, the read below would never see the end of the pipe.
  failure.write.close();
  int why = 0;
  if (::read(failure.read.get(), &why, sizeof why) == sizeof why) {
    ::waitpid(pid_, nullptr, 0);
    throw Error("{} cannot be started: {}", command[0], std::strerror(why));
  }
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  read_without_waiting(out_);
  read_without_waiting(err_);
}

Child::~Child() {
  if (ended()) return;
  signal_all(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::optional<int> Child::ended() {
  int status = 0;
  if (!code_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

void Child::signal(int number) {
  if (!ended()) ::kill(pid_, number);
}

void Child::signal_all(int number) {
  // A negative id addresses the whole process group.
  if (!ended()) ::kill(-pid_, number);
}

CommandOutput run_command(const std::vector<std::string>& command) {
  Child child(command, {});
  CommandOutput result;
  // Both pipes are read as they fill: a child that fills one while the parent waits on the other
  // would deadlock.
  bool out_open = true, err_open = true;
  while (out_open || err_open) {
    std::array<pollfd, 2> wait{};
    nfds_t n = 0;
    if (out_open) wait[n++] = {child.out().get(), POLLIN, 0};
    if (err_open) wait[n++] = {child.err().get(), POLLIN, 0};
    ::poll(wait.data(), n, -1);
    if (out_open) out_open = receive(child.out(), result.out) != Received::kClosed;
    if (err_open) err_open = receive(child.err(), result.err) != Received::kClosed;
  }
  std::optional<int> code;
  // Both pipes are closed, so the child is about to end.
  while (!(code = child.ended())) ::poll(nullptr, 0, 1);
  result.code = *code;
  return result;
}

}  // namespace tessera::launch
