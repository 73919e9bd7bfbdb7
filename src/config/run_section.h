// The sections of the run file around the steps: `run`, `checkpoint`, `evaluation`, `metrics` and
// `divergence`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_errors.h"
#include "base/range.h"

namespace tessera::config {

enum class Device : uint8_t { kAuto, kCpu, kCuda };
enum class KernelSelection : uint8_t { kAutotune, kHeuristic };
constexpr const char* enum_names(Device) { return "auto|cpu|cuda"; }
constexpr const char* enum_names(KernelSelection) { return "autotune|heuristic"; }

constexpr int64_t kMostThreads = 1024;  // per rank

struct RunSection {
  std::string name, directory;
  int64_t seed = 1234;
  Device device = Device::kAuto;
  KernelSelection kernel_selection = KernelSelection::kAutotune;
  bool tf32 = false;
  int64_t threads = 0;
  int64_t stop_after_steps = 0;
  std::string time_limit;
  std::string dump_gradients, dump_values;

  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "shown in logs; without one, the name of the run file");
    visit("directory", self.directory, "where the run writes; without one, runs/NAME");
    visit("seed", self.seed, "random seed of the initial weights, the data order and dropout",
          between(0, kExactIntegers));
    visit("device", self.device, "auto: a GPU if there is one");
    visit("kernel_selection", self.kernel_selection,
          "on a GPU, algorithms of GEMMs and attention; autotune: measured at the first start and "
          "stored in kernel_selection.txt; heuristic: the library's first choice for GEMMs and our "
          "own attention, the same in every run");
    visit("tf32", self.tf32,
          "on a GPU, f32 GEMMs read their operands as TF32: several times as fast, with 10 bits of "
          "mantissa");
    visit("threads", self.threads,
          "CPU threads per rank; 0: its share of the cores, at most OMP_NUM_THREADS",
          between(0, kMostThreads));
    visit("stop_after_steps", self.stop_after_steps,
          "write a checkpoint and exit after this many steps of the run; 0: train to the end",
          at_least(0));
    visit("time_limit", self.time_limit,
          "write a checkpoint and exit this time after the start, or earlier by the time of a step "
          "and of a save, such as 11h30m, 90m or 2d; empty: no limit");
    visit("dump_gradients", self.dump_gradients,
          "debug: a safetensors file for the gradients of the first step");
    visit("dump_values", self.dump_values,
          "debug: a folder for digests of all values of all steps, as verify compares them");
  }
};

// Returns the seconds of a time such as "11h30m" or "2d": numbers with the units d, h, m and s,
// each at most once and in this order. Returns nothing for another text and for a time of 0.
std::optional<double> seconds_of(std::string_view time);

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
    visit("every_steps", self.every_steps, "steps between checkpoints; 0: save only at the end",
          at_least(0));
    visit("save_at_end", self.save_at_end,
          "save when the run ends or is stopped; false: with every_steps = 0 nothing is saved");
    visit("keep", self.keep, "number of latest checkpoints to keep; 0: all", at_least(0));
    visit("keep_every_steps", self.keep_every_steps,
          "checkpoints at multiples of this step are never removed; 0: none", at_least(0));
    visit("keep_every_tokens", self.keep_every_tokens,
          "the first step past each multiple of this number of tokens (encoder and decoder) is "
          "saved and never removed; 0: none",
          at_least(0));
    visit("at_steps", self.at_steps,
          "additional steps at which to save; these checkpoints are never removed");
    visit("from", self.from, "a checkpoint or a Hugging Face folder to start from");
    visit("load", self.load,
          "state to load from it: only the weights, or also the optimizer state and the step");
    visit("resume", self.resume, "whether a run resumes from the last checkpoint of its directory");
    visit("allow_changes", self.allow_changes,
          "resume with another model, data or seed; each dataset continues at its own position");
    visit("reserve", self.reserve,
          "keep disk space for one checkpoint allocated, which a save uses if the disk is full");
    visit("retry_s", self.retry_s,
          "seconds for which a failing last save of a run is retried; a further signal ends the "
          "wait",
          at_least(0));
  }
};

struct EvaluationSection {
  std::vector<std::string> tasks;
  std::string data;
  int64_t every_steps = 0, limit = 0;

  static void fields(auto& self, auto&& visit) {
    visit("tasks", self.tasks,
          "tasks by name, or task files (docs/evaluation.md), whose results go to the metrics");
    visit("data", self.data,
          "folder of the tasks' examples; default: the folders of docs/evaluation.md");
    visit(
        "every_steps", self.every_steps,
        "steps between evaluations, each of which saves a checkpoint and reads it back; 0: only at "
        "the end",
        at_least(0));
    visit("limit", self.limit, "only the first examples of each task; 0: all", at_least(0));
  }
};

struct MetricsSection {
  int64_t every_steps = 1, validate_every_steps = 100, validate_sequences = 0;
  int64_t source_loss_every_steps = 100, noise_scale_every_steps = 0, print_every_steps = 0;
  bool tensorboard = true;
  std::string prometheus;
  int64_t trace_step = 0;

  static void fields(auto& self, auto&& visit) {
    visit("every_steps", self.every_steps, "steps between lines of metrics.jsonl", at_least(1));
    visit("validate_every_steps", self.validate_every_steps,
          "steps between validations; 0: only at the end", at_least(0));
    visit("validate_sequences", self.validate_sequences,
          "sequences of each validation dataset that are read; 0: all", at_least(0));
    visit("source_loss_every_steps", self.source_loss_every_steps,
          "steps between measurements of the training loss of each dataset, if there are several; "
          "each costs the forward pass of a step; 0: never",
          at_least(0));
    visit("noise_scale_every_steps", self.noise_scale_every_steps,
          "steps between measurements of the gradient-noise scale, from the gradients of the step "
          "and "
          "of its first micro-batch on all ranks, which is computed once more; 0: never",
          at_least(0));
    visit("tensorboard", self.tensorboard, "write event files too");
    visit(
        "print_every_steps", self.print_every_steps,
        "steps between lines about steps in log.txt and on an output that is not a terminal; 0: a "
        "line every 30 s",
        at_least(0));
    visit("prometheus", self.prometheus,
          "a file NAME.prom with the latest figures, for the textfile collector of node_exporter; "
          "without one, none is written");
    visit("trace_step", self.trace_step, "write the timeline of this step as trace.json; 0: none",
          at_least(0));
  }
};

struct DivergenceSection {
  double ratio = 1.5;
  int64_t steps = 20;
  double spike = 10;

  static void fields(auto& self, auto&& visit) {
    visit("ratio", self.ratio,
          "the run is saved and ends with exit code 3 when its loss stays above this times its "
          "first loss, and above ln(vocabulary); 0: never",
          zero_or_between(1, 1e30));
    visit("steps", self.steps, "number of last steps whose median loss is compared",
          between(1, 1e6));
    visit("spike", self.spike,
          "a warning is printed when a loss exceeds the recent median by this many standard "
          "deviations; 0: never",
          zero_or_between(1, 1e30));
  }
};

void check(const RunSection& run, KeyErrors& errors);
// `steps`: the length of the run.
void check(const CheckpointSection& checkpoint, int64_t steps, KeyErrors& errors);
void check(const EvaluationSection& evaluation, KeyErrors& errors);
void check(const MetricsSection& metrics, KeyErrors& errors);

}  // namespace tessera::config
