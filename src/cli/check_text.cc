#include "cli/check_text.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "compile/check/check.h"
#include "ir/parse.h"

namespace tessera {
namespace {

std::vector<Program> read_stages(const std::vector<std::string>& files) {
  std::vector<Program> stages;
  for (const std::string& file : files) stages.push_back(parse_program(read_file(file), file));
  const int64_t wanted = stages[0].mesh[AxisKind::kPipeline];
  std::sort(stages.begin(), stages.end(),
            [](const Program& a, const Program& b) { return a.stage < b.stage; });
  for (size_t i = 0; i < stages.size(); ++i)
    if (stages[i].mesh != stages[0].mesh || stages[i].name != stages[0].name)
      throw Error(
          "--check-text: {} and {} are not stages of one program: their names or meshes differ.",
          files[0], files[i]);
  if (std::ssize(stages) != wanted)
    throw Error(
        "--check-text: got {} files for a pipeline of {} stages. Give one per stage, as "
        "`tessera compile RUN --text --rank N` prints them.",
        stages.size(), wanted);
  for (int64_t s = 0; s < wanted; ++s)
    if (stages[static_cast<size_t>(s)].stage != s)
      throw Error("--check-text: there is no program of stage {} in the {} files.", s, wanted);
  return stages;
}

int print_findings(const std::vector<Program>& stages) {
  const std::vector<std::string> wrong = prove(stages);
  size_t calls = 0, frames = 0;
  for (const Program& p : stages) {
    calls += p.schedule.size();
    frames += p.frames.size();
  }
  fmt::print(
      "check     {} calls on {} frames: {}\n", calls, frames,
      wrong.empty() ? "data flow verified, no deadlock" : fmt::format("{} findings", wrong.size()));
  for (const std::string& w : wrong) fmt::print(stderr, "  {}\n", w);
  return wrong.empty() ? 0 : 1;
}

}  // namespace

// The rules of ops abort on operands that no pass makes, and a text may hold any. So a process of
// its own checks, and its end is what is reported.
int check_text(const std::vector<std::string>& files) {
  const std::vector<Program> stages = read_stages(files);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw Error("--check-text: cannot start a process for the check.");
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const int code = print_findings(stages);
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  throw Error(
      "{}: the program is damaged: an op has operands that its rule cannot take (see above).",
      files[0]);
}

}  // namespace tessera
