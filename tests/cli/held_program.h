// A tiny run in a folder, what it leaves there, and programs that run at the same time.
#pragma once

#include <fstream>
#include <set>

#include "tests/cli/program.h"

namespace tessera::cli {

namespace fs = std::filesystem;

inline constexpr const char* kRun =
    "model: { layers: 1, hidden: 32, heads: 2, vocabulary: 257, context: 32 }\n"
    "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
    "batch: { global: 2, micro: 1 }\n"
    "schedule: { steps: 12, warmup_steps: 0 }\n"
    "checkpoint: { every_steps: 3, keep: 3 }\n"
    "run: { directory: run, seed: 1, threads: 1 }\n";

class TinyRun : public ProgramFolder {
 protected:
  TinyRun() { put("run.yaml", kRun); }

  // A finished run with the checkpoints 6, 9 and 12.
  void trained(const std::string& keys = "") const {
    const ProgramResult r = run("train run.yaml " + keys);
    ASSERT_EQ(r.code, 0) << r.err;
  }

  std::set<std::string> names(const std::string& folder) const {
    std::set<std::string> all;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_ / folder, none))
      all.insert(entry.path().filename().string());
    return all;
  }

  // The steps of the lines about training steps.
  std::vector<int64_t> steps(const std::string& metrics) const {
    std::vector<int64_t> all;
    for (const Tree& t : parse_json_lines(get(metrics), metrics))
      if (t.find("grad_norm") != nullptr) all.push_back(std::get<int64_t>(t.find("step")->value));
    return all;
  }

  static std::vector<int64_t> range(int64_t first, int64_t last) {
    std::vector<int64_t> all;
    for (int64_t s = first; s <= last; ++s) all.push_back(s);
    return all;
  }

  // The one folder in run/set_aside.
  std::string set_aside() const {
    const std::set<std::string> all = names("run/set_aside");
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? "run/set_aside" : "run/set_aside/" + *all.begin();
  }

  void flip(const std::string& file, int64_t at) const {
    std::string bytes = get(file);
    bytes[static_cast<size_t>(at)] = static_cast<char>(bytes[static_cast<size_t>(at)] ^ 0x10);
    std::ofstream(folder_ / file, std::ios::binary) << bytes;
  }

  static void expect_in(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin: " << text;
  }
};

// A program that runs while the test does other things.
class Held {
 public:
  explicit Held(const std::string& line) : pipe_(popen(line.c_str(), "r")) {}
  ~Held() {
    if (pipe_ != nullptr) pclose(pipe_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  // The exit code, once it has ended.
  int wait() {
    char space[4096];
    while (fread(space, 1, sizeof space, pipe_) > 0) {
    }
    const int status = pclose(pipe_);
    pipe_ = nullptr;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  FILE* pipe_;
};

}  // namespace tessera::cli
