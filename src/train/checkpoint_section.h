// The section `checkpoint` of the run file: when a run saves, what it keeps and where it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

enum class Load : uint8_t { kWeights, kAll };
enum class Resume : uint8_t { kAuto, kNever, kRequired };

constexpr const char* enum_names(Load) { return "weights|all"; }
constexpr const char* enum_names(Resume) { return "auto|never|required"; }

struct CheckpointSection {
  int64_t every_steps = 100, keep = 3, keep_every_steps = 0, keep_every_tokens = 0;
  std::vector<int64_t> at_steps;
  std::string from;
  Load load = Load::kWeights;
  Resume resume = Resume::kAuto;
  bool save_at_end = true, allow_changes = false, reserve = true;
  int64_t retry_s = 60;

  static void fields(auto& self, auto&& visit) {
    visit("every_steps", self.every_steps, "how often; 0: only at the end");
    visit("save_at_end", self.save_at_end,
          "save when the run ends or is stopped; false: with every_steps = 0 nothing is saved");
    visit("keep", self.keep, "how many of the latest stay; 0: all");
    visit("keep_every_steps", self.keep_every_steps, "multiples of this stay for good; 0: none");
    visit("keep_every_tokens", self.keep_every_tokens,
          "the first step past each multiple of this number of tokens (encoder and decoder) is "
          "saved and "
          "kept; 0: none");
    visit("at_steps", self.at_steps, "checkpoints at these steps too; they stay for good");
    visit("from", self.from, "a checkpoint or a Hugging Face folder to start from");
    visit("load", self.load, "what is taken from it: the weights, or optimizer and step as well");
    visit("resume", self.resume, "whether a run resumes from the last checkpoint of its directory");
    visit("allow_changes", self.allow_changes,
          "resume with another model, data or seed; each data set continues at its own place");
    visit("reserve", self.reserve,
          "keep disk space for one checkpoint allocated, which a save uses if the disk is full");
    visit("retry_s", self.retry_s,
          "seconds for which a failing last save of a run is retried; a further signal ends the "
          "wait");
  }
};

}  // namespace tessera
