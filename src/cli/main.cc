// Selects the command, runs it, and turns errors into messages and exit codes: 0 success, 1 runtime
// error, 2 usage error, 3 numeric failure (NumericError).
#include <omp.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/log.h"
#include "base/utf8.h"
#include "cli/verbs.h"
#include "config/run_section.h"
#include "tensor/cpu_features.h"
#include "tensor/process_limits.h"

namespace {

int version() {
  fmt::print("tessera {}\n", tessera::cli::version_and_commit());
  return 0;
}

int run(tessera::cli::Args args) {
  const bool asks_version = !args.empty() && (args[0] == "--version" || args[0] == "version");
  const int code =
      asks_version ? version() : tessera::cli::run_verb("", tessera::cli::verbs(), args);
  tessera::require_written_output();
  return code;
}

// Drops the text if standard error is closed or full.
void tell(std::string_view text) {
  tessera::print_to(stderr, fmt::format("tessera: {}\n", tessera::printable(text)));
}

// Limits the number of OpenMP threads. OpenMP stores data per thread of a team on the stack of the
// thread that starts the team, which overflows with a million threads.
void bound_threads() {
  if (omp_get_max_threads() <= tessera::config::kMostThreads) return;
  tell(fmt::format("warning: OMP_NUM_THREADS exceeds {} and is ignored.",
                   tessera::config::kMostThreads));
  omp_set_num_threads(tessera::read_cpu_features().cores);
}

}  // namespace

int main(int argc, char** argv) {
  tessera::open_standard_files();
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  bound_threads();
  tessera::keep_one_heap_where_addresses_are_limited();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails and is reported as such
  int code = 1;
  try {
    return run(args);
  } catch (const tessera::UsageError& e) {
    tell(e.what());
    code = 2;
  } catch (const tessera::NumericError& e) {
    tell(e.what());
    code = tessera::kNumericExitCode;
  } catch (const tessera::Error& e) {
    tell(e.what());
  } catch (const std::bad_alloc&) {
    tell("out of memory. `tessera doctor` prints the memory limit of this process.");
  } catch (const std::filesystem::filesystem_error& e) {
    tell(fmt::format("{}: {}", e.path1().string(), e.code().message()));
  } catch (const std::system_error& e) {  // fmt::print throws it
    if (std::ferror(stdout) == 0)
      tell(e.what());
    else if (!tessera::reader_is_gone(stdout))
      tell(tessera::lost_output_message(e.code().value()));
  } catch (const std::exception& e) {
    tell(e.what());
  }
  return code;
}
