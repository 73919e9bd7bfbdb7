// The start of a run: opens its inputs, compiles, loads or initializes the weights.
#include <omp.h>

#include "base/count.h"
#include "base/error.h"
#include "checkpoint/index.h"
#include "train/data_lines.h"
#include "train/layout_line.h"
#include "train/origin.h"
#include "train/run.h"
#include "train/run_device.h"
#include "train/run_file_copy.h"
#include "train/run_folder.h"
#include "train/run_products.h"
#include "train/run_programs.h"
#include "train/trained_part.h"
#include "train/vocabulary_check.h"

namespace tessera {
const Tokenizer& Run::tokenizer() {
  if (!tokenizer_) tokenizer_ = load_tokenizer(tokenizer_of_run(config_));
  return *tokenizer_;
}

// Runs before memory is allocated, so that unusable data or a missing checkpoint is reported at
// once.
void Run::open_inputs() {
  doing(0, "opening the data");
  start_ = agreed_start(world_, [this] {
    StartingPoint start = find_start(config_, options_.from_step);
    require_suitable(config_, start);
    return start;
  });
  input_ = std::make_unique<TrainingInput>(config_, tokenizer());
  validation_.emplace(config_, tokenizer(), world_);
  if (first_) require_vocabulary(config_, tokenizer(), input_->rows(), validation_->sets());
}

// Everything that does not depend on where the run starts.
void Run::prepare() {
  const RunDevice device = resolve_device(config_, world_);
  if (config_.run.threads == 0) config_.run.threads = threads_for(device.cpu, world_);
  // The team of kernels that are given no number of threads.
  omp_set_num_threads(static_cast<int>(config_.run.threads));
  resolve_sizes(config_);
  judge_.emplace(config_);
  if (first_) make_run_directory(directory());
  world_.barrier();
  if (first_) log_.open(directory() / "log.txt");
  dumps_.emplace(config_, world_);
  open_inputs();
  doing(0, "compiling");
  auto kernels = device.kernels(static_cast<int>(config_.run.threads));
  share_products(*kernels, config_, world_, options_.now_s,
                 [this](const std::string& line) { say(line); });
  const double began = options_.now_s();
  trainer_ = std::make_unique<Trainer>(config_, std::move(kernels), device.memory_limit(), world_,
                                       options_.now_s);
  const double compiled = since(began);
  if (options_.heartbeat)
    trainer_->machine().hooks().started = [this](const OpStart& at) { doing(at); };
  const Program& p = trainer_->program();
  std::array<double, 2> parameters = {};  // all, trained
  for (const StateTensor& t : trainer_->state()) {
    state_bytes_ += t.data.bytes() + kPieceAlignment;
    if (t.name.find('|') != std::string::npos) continue;
    parameters[0] += static_cast<double>(t.data.elements());
    if (trains(config_, t.name)) parameters[1] += static_cast<double>(t.data.elements());
  }
  world_.all_reduce(parameters, Reduction::kSum);
  const MemoryPlan m = memory_plan(p);
  say(fmt::format("tessera {} · run {} · {} {:.1f} M parameters · {} · {} tokens/step",
                  options_.version, config_.run.name, name_of_entry(config_.model.family),
                  parameters[0] / 1e6, name_of_entry(config_.precision),
                  format_count(config_.batch.global * row_tokens(config_))));
  if (parameters[1] < parameters[0]) say(trained_line(config_, parameters[1], parameters[0]));
  if (device.gpu)
    for (const std::string& line : device_lines(trainer_->machine())) say(line);
  trainer_->machine().hooks().captured = [this](const std::string& line) { say(line); };
  say(layout_line(config_));
  for (const std::string& line : memory_lines(m, trainer_->machine(), device)) say(line);
  if (evaluates())
    require_task_memory(options_.tasks.bytes(config_), device.need(m), device.memory_limit());
  require_host_memory(world_, device.host_need(m), device.cpu.memory_bytes);
  const double touching = options_.now_s();
  trainer_->machine().touch();
  say(fmt::format(
      "check     {} rank{}, {} calls each: collectives match, data flow verified, no deadlock",
      world_.size(), world_.size() > 1 ? "s" : "", p.schedule.size()));
  say(fmt::format("startup   config {:.2f} s, compile and check {:.2f}, touch memory {:.2f}",
                  began - options_.started_s, compiled, since(touching)));
}

LoadedStart Run::resume() {
  doing(0, "reading the checkpoint");
  const double began = options_.now_s();
  LoadedStart loaded = load_newest_intact(
      start_, world_,
      [&](const Path& p) {
        return load_checkpoint(p, start_, config_, *trainer_, [this](auto& line) { say(line); });
      },
      [this](const std::string& line) { warn(line); });
  const CheckpointHeader& header = loaded.header;
  const bool all = start_.load == Load::kAll;
  if (!header.tokenizer.empty())
    require_same_tokenizer(config_, loaded.checkpoint, start_.resumes, tokenizer());
  saves_->begin_from(header);
  if (all) {
    first_step_ = header.step + 1;
    tokens_ = header.tokens;
    position_ = position_of(header, loaded.checkpoint.string(), tokenizer());
    if (is_own(directory(), loaded.checkpoint)) saves_->resumed(header.step);
    judge_->restore(header.state);
  }
  say(fmt::format("{:<9} {} {} in {:.2f} s", start_.resumes ? "resume" : "weights",
                  all ? fmt::format("step {} from", format_count(header.step)) : "from",
                  loaded.checkpoint.string(), since(began)));
  return loaded;
}

void Run::make_saves() {
  SavesOptions o;
  o.folder = directory() / "checkpoints";
  o.rules = config_.checkpoint;
  o.tokens_after = [this](int64_t steps) { return input_->tokens_after(steps); };
  o.world = &world_;
  o.now_s = options_.now_s;
  o.before_visible = [this] {
    if (record_) record_->sync();
  };
  o.say = [this](const std::string& line) { say(line); };
  o.warn = [this](const std::string& line) { warn(line); };
  o.waits = [this](std::string_view what) { doing(step_, what); };
  saves_.emplace(std::move(o));
  trainer_->before_update([this] { saves_->before_update(); });
  if (first_) tokenizer_bytes_ = read_file(tokenizer_of_run(config_));
}

// Weights, data and files, from fresh or from a checkpoint.
void Run::start() {
  make_saves();
  dumps_->begin(*trainer_);
  for (const Path& p : start_.unfinished)
    warn(fmt::format("{} is not used: its save was not finished", p.string()));
  LoadedStart loaded;
  if (start_.candidates.empty())
    trainer_->initialise();
  else
    loaded = resume();
  input_->begin(config_, trainer_->data_rank(), position_);
  last_step_ = config_.schedule.steps;
  if (config_.run.stop_after_steps > 0)
    last_step_ = std::min(last_step_, config_.run.stop_after_steps);
  const int64_t samples = input_->samples_before(config_.schedule.steps);
  for (const std::string& line : data_lines(input_->rows(), validation_->sets(), samples))
    say(line);
  outcome_.data = data_counts(input_->rows(), samples);
  schedule_ = make_schedule(config_.schedule, config_.optimizer.learning_rate);
  outcome_.step = first_step_ - 1;
  world_.barrier();  // all have found the same start before anything is written
  if (first_) begin_record(loaded);
  if (first_step_ > last_step_) return;
  constexpr int64_t kMore = int64_t{1} << 20;  // for the index and the rounding of file sizes
  saves_->reserve(state_bytes_ + static_cast<int64_t>(tokenizer_bytes_.size()) + kMore);
}

void Run::begin_record(const LoadedStart& loaded) {
  const double wall_s = options_.wall_s ? options_.wall_s() : 0;
  for (const std::string& line : make_way(directory(), start_, loaded, first_step_ - 1, wall_s))
    say(line);
  record_.emplace(RunRecordOptions{directory(), first_step_, config_.metrics.tensorboard,
                                   options_.wall_s,
                                   [this](const std::string& line) { warn(line); }});
  const int64_t done = first_step_ - 1;
  const bool nothing_to_do = done > 0 && done >= last_step_;
  if (nothing_to_do)
    say(fmt::format(
        "step {} of {} is done: nothing to do. Set {} to train further.", format_count(done),
        format_count(last_step_),
        last_step_ < config_.schedule.steps ? "run.stop_after_steps" : "schedule.steps"));
  if (nothing_to_do && saves_->last() == done) return;
  try {
    const Path written = write_run_file(config_, options_.version);
    if (written.filename() != "run.yaml")
      say(fmt::format("config    written to {}: run.yaml is a file of yours and is kept",
                      written.string()));
  } catch (const Error& e) {
    warn(e.what());
  }
}

}  // namespace tessera
