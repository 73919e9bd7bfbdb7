// Builds the command line of mpirun or srun, and splits and quotes command lines by the rules of a
// POSIX shell.
#include "launch/command.h"

#include <iterator>

#include "base/error.h"
#include "launch/monitor_endpoint.h"

namespace tessera::launch {
namespace {

// --map-by slot (below: --distribution block) places consecutive ranks on one host. --tag-output
// and --label prefix each line with its rank, which relay.cc parses. Ranks are not bound to cores,
// because each of them runs several threads.
std::vector<std::string> mpirun(const StartOptions& o) {
  std::vector<std::string> c = {
      "mpirun", "-n", std::to_string(o.ranks), "--tag-output", "--bind-to", "none", "--map-by",
      "slot",   "-x", kEndpointVariable};
  if (o.root) c.emplace_back("--allow-run-as-root");
  // Without it, mpirun rejects more ranks than there are cores.
  if (o.hosts.empty() || slots(o.hosts) < o.ranks) c.emplace_back("--oversubscribe");
  if (!o.hosts.empty()) {
    c.emplace_back("--host");
    c.push_back(host_list(o.hosts));
  }
  return c;
}

std::vector<std::string> srun(const StartOptions& o) {
  std::vector<std::string> c = {"srun",
                                "--ntasks",
                                std::to_string(o.ranks),
                                "--mpi",
                                o.mpi,
                                "--distribution",
                                "block",
                                "--label",
                                "--unbuffered",
                                "--kill-on-bad-exit=1",
                                "--cpu-bind=none"};
  if (o.left_out.empty()) return c;
  std::string names;
  for (const std::string& h : o.left_out) names += (names.empty() ? "" : ",") + h;
  c.push_back("--exclude=" + names);
  return c;
}

// Returns true for characters that need no quotes in any shell.
bool plain(char c) {
  const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return word || std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
}

}  // namespace

std::vector<std::string> start_command(const StartOptions& options) {
  CHECK(options.ranks > 0 && !options.program.empty(), "nothing to start");
  std::vector<std::string> c =
      options.launcher == Launcher::kMpirun ? mpirun(options) : srun(options);
  c.insert(c.end(), options.more.begin(), options.more.end());
  c.insert(c.end(), options.program.begin(), options.program.end());
  return c;
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  bool inside = false;
  char quote = 0;
  // `inside`: an argument has begun. An empty pair of quotes is an argument, too.
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    // A backslash quotes the next character, except in single quotes.
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      inside = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (inside) out.push_back(std::exchange(word, {}));
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != 0) throw Error("unclosed quote {} in: {}", quote, text);
  if (inside) out.push_back(word);
  return out;
}

std::string quote_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) {
    bool bare = !w.empty();
    for (const char c : w) bare = bare && plain(c);
    // A single quote cannot appear in single quotes: '\'' closes them, adds one, and opens them
    // again.
    std::string quoted;
    for (const char c : w) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += (out.empty() ? "" : " ") + (bare ? w : "'" + quoted + "'");
  }
  return out;
}

}  // namespace tessera::launch
