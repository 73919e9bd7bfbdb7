#include "cli/check_text.h"

#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "compile/check/check.h"
#include "ir/parse.h"

namespace tessera {
namespace {

struct Stage {
  std::string file;
  Program program;
};

std::vector<Program> read_stages(const std::vector<std::string>& files) {
  std::vector<Stage> stages;
  for (const std::string& file : files)
    stages.push_back({file, parse_program(read_file(file), file)});
  const Stage& first = stages[0];
  for (const Stage& s : stages)
    if (s.program.mesh != first.program.mesh || s.program.name != first.program.name)
      throw Error(
          "--check-text: {} and {} are not stages of one program: their names or meshes differ.",
          first.file, s.file);
  const int64_t expected = first.program.mesh[AxisKind::kPipeline];
  if (std::ssize(stages) != expected)
    throw Error(
        "--check-text: got {} files for a pipeline of {} stages. Give one per stage, as "
        "`tessera compile RUN --text --rank N` prints them.",
        stages.size(), expected);
  std::vector<Program> programs(stages.size());
  std::vector<std::string> file_of(stages.size());
  for (Stage& s : stages) {
    const auto at = static_cast<size_t>(s.program.stage);
    if (at >= stages.size() || !file_of[at].empty())
      throw Error("--check-text: {} is of stage {}, {}.", s.file, at,
                  at < stages.size() ? "as is " + file_of[at]
                                     : fmt::format("expected 0 to {}", expected - 1));
    file_of[at] = s.file;
    programs[at] = std::move(s.program);
  }
  return programs;
}

}  // namespace

void print_verdict(std::span<const Program> programs, const std::vector<std::string>& findings) {
  size_t calls = 0, frames = 0;
  for (const Program& p : programs) {
    calls += p.schedule.size();
    frames += p.frames.size();
  }
  fmt::print("check     {} calls on {} frames: {}\n", calls, frames,
             findings.empty() ? "data flow verified, no deadlock"
                              : fmt::format("{} findings", findings.size()));
}

int print_findings(const std::vector<std::string>& findings) {
  for (const std::string& f : findings) fmt::print(stderr, "  {}\n", f);
  return findings.empty() ? 0 : 1;
}

// The rules of ops abort on operands that no pass makes, and a text may contain any. So the check
// runs in a child process, and the parent reports how it ended.
int check_text(const std::vector<std::string>& files) {
  const std::vector<Program> stages = read_stages(files);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw Error("--check-text: cannot start a process for the check.");
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const std::vector<std::string> findings = prove(stages);
    print_verdict(stages, findings);
    const int code = print_findings(findings);
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw Error("--check-text: the process of the check is lost: {}.", std::strerror(errno));
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  if (WTERMSIG(status) != SIGABRT)
    throw Error("--check-text: the process of the check was ended by signal {} ({}).",
                WTERMSIG(status), strsignal(WTERMSIG(status)));
  throw Error(
      "{}: the program is damaged: an op has operands that its rule cannot take (see above).",
      fmt::join(files, ", "));
}

}  // namespace tessera
