// A tiny run, and `tessera serve` on it in a process of its own.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/cli/program.h"
#include "tests/serve/client.h"

namespace tessera::serve {

class ServedRun : public cli::ProgramFolder {
 protected:
  ServedRun() {
    put("run.yaml",
        "model: { layers: 2, hidden: 32, heads: 2, vocabulary: 257, context: 256 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
        "batch: { global: 2, micro: 1 }\n"
        "schedule: { steps: 40, warmup_steps: 0 }\n"
        "optimizer: { learning_rate: 0.01 }\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
    const cli::ProgramResult r = run("train run.yaml");
    EXPECT_EQ(r.code, 0) << r.err;
  }
  ~ServedRun() override { stop(); }

  // Starts the server and waits until it listens.
  void serve(const std::vector<std::string>& options = {}) {
    log_ = (folder_ / "serve.log").string();
    std::vector<std::string> words = {cli::tessera_program(),
                                      "serve",
                                      (folder_ / served_).string(),
                                      "--port",
                                      "0",
                                      "--threads",
                                      "1"};
    words.insert(words.end(), options.begin(), options.end());
    pid_ = ::fork();
    if (pid_ == 0) {
      const int log = ::open(log_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      ::dup2(log, STDERR_FILENO);
      std::vector<char*> arguments;
      for (std::string& w : words) arguments.push_back(w.data());
      arguments.push_back(nullptr);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    for (int i = 0; i < 600; ++i) {
      const std::string text = std::filesystem::exists(log_) ? read_file(log_) : "";
      const std::string mark = "serving on http://127.0.0.1:";
      if (const size_t at = text.find(mark); at != text.npos && text.ends_with("/v1\n")) {
        port_ = std::atoi(text.c_str() + at + mark.size());
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    FAIL() << "the server did not start: " << read_file(log_);
  }

  // Sends the signal and returns the exit code; -1 if it was killed.
  int stop(int signal = SIGTERM) {
    if (pid_ <= 0) return -1;
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool running() const { return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0; }

  // Returns the value of a metric.
  int64_t metric(const std::string& name) const {
    const std::string text = Client(port_).get("/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, text.npos) << name << " in " << text;
    return at == text.npos ? -1 : std::atoll(text.c_str() + at + name.size() + 2);
  }
  int64_t resident_bytes() const {
    std::FILE* const f = std::fopen(fmt::format("/proc/{}/statm", pid_).c_str(), "r");
    long total = 0, resident = 0;
    EXPECT_EQ(std::fscanf(f, "%ld %ld", &total, &resident), 2);
    std::fclose(f);
    return resident * ::sysconf(_SC_PAGESIZE);
  }

  static Tree tree(const Answer& a) { return parse_json(a.body, "answer"); }
  static const Tree& choice(const Tree& t, size_t i = 0) {
    return t.find("choices")->as_list()->at(i);
  }
  static std::string text(const Tree& t, size_t i = 0) {
    const Tree& c = choice(t, i);
    const Tree* const message = c.find("message");
    return *(message != nullptr ? message->find("content") : c.find("text"))->as_string();
  }

  std::string served_ = "run";
  pid_t pid_ = -1;
  int port_ = 0;
  std::string log_;
};

}  // namespace tessera::serve
