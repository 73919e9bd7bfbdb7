#include "train/loop.h"

#include <deque>
#include <numbers>
#include <numeric>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/folders.h"
#include "data/tokenizer.h"
#include "train/diagnose.h"
#include "train/doing.h"
#include "train/gradient_file.h"
#include "train/layout_line.h"
#include "train/loss_scale.h"
#include "train/resume.h"
#include "train/run_data.h"
#include "train/run_device.h"
#include "train/run_products.h"
#include "train/run_programs.h"
#include "train/run_record.h"
#include "train/saves.h"
#include "train/schedule.h"
#include "train/signals.h"
#include "train/step_trace.h"
#include "train/trainer.h"
#include "train/training_input.h"
#include "train/value_record.h"

namespace tessera {
namespace {

// Of a row, an encoder's and its decoder's.
int64_t row_tokens(const RunConfig& c) {
  const CompileRequest r = compile_request(c, Purpose::kTrain);
  return r.tokens + r.source;
}

class Run {
 public:
  Run(RunConfig config, const TrainOptions& options)
      : config_(std::move(config)),
        loss_scale_(config_.loss_scale),
        options_(options),
        alone_(options.world ? nullptr : self_world()),
        world_(options.world ? *options.world : *alone_),
        first_(world_.rank() == 0),
        log_(!first_ ? LogTerminal::kNone : (options.json ? LogTerminal::kErr : LogTerminal::kOut)),
        progress_(first_ ? options.terminal : Progress::Output{}) {}

  TrainOutcome go();

 private:
  void prepare();
  void measure_machine();
  void start();
  void resume(const StartingPoint& start);
  void one_step(int64_t step);
  void watched_step(int64_t step);
  void finish_steps(int64_t left);
  void finish_step(const StepResult& r);
  bool ends_alone(int64_t step) const;
  void after_step(const StepResult& r, double seconds);
  void show_progress(const StepMetrics& m, double tokens);
  void stop_at_bad_number(const StepResult& r);
  void validate(int64_t step);
  void evaluate(int64_t step);
  void make_saves();
  void save_checkpoint(int64_t step);
  SaveGroup save_group() const;
  bool asked_to_stop(const StopSignals& signals) const;
  void write_run_file() const;
  void say(const std::string& line);
  void doing(int64_t step, std::string_view what) const;
  void doing(const OpStart& at) const;
  const Tokenizer& tokenizer();
  bool evaluates() const { return !config_.evaluation.tasks.empty(); }
  bool scales() const { return config_.precision == Precision::kFp16; }
  double since(double s) const { return options_.now_s() - s; }
  Path directory() const { return config_.run.directory; }
  Path checkpoint_at(int64_t step) const {
    return directory() / "checkpoints" / std::to_string(step);
  }

  RunConfig config_;
  LossScale loss_scale_;
  const TrainOptions& options_;
  std::unique_ptr<World> alone_;  // where no world was given
  World& world_;
  bool first_;  // of the ranks: the one that writes and says things
  Log log_;
  Progress progress_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<RunPosition> position_;  // of the checkpoint that the run continues
  std::unique_ptr<TrainingInput> input_;
  std::vector<ValidationSet> validation_;
  std::optional<RunRecord> record_;  // of the first rank
  std::string tokenizer_bytes_;      // for checkpoints; of the first rank
  std::optional<Saves> saves_;
  std::optional<ValueRecorder> recorder_;  // where values are dumped
  Schedule schedule_;
  double matrix_rate_ = 0, sequence_flops_ = 0, exposed_share_ = -1;
  int64_t first_step_ = 1, last_step_ = 0, tokens_ = 0;
  std::vector<double> norms_;  // of the last steps, for the report of a bad number
  std::deque<double> seconds_;
  double finished_s_ = 0;  // the last step
  TrainOutcome outcome_;
  int64_t step_ = 0;  // under way
};

void Run::say(const std::string& line) {
  progress_.finish();
  log_.info("{}", line);
}

// To whoever watches this rank.
void Run::doing(int64_t step, std::string_view what) const {
  if (options_.heartbeat) options_.heartbeat->say(step, what);
}

void Run::doing(const OpStart& at) const {
  const int64_t saving = saves_->under_way();
  options_.heartbeat->say(
      step_,
      saving < 0 ? describe(at) : fmt::format("{}, saving {} meanwhile", describe(at), saving),
      at.waits);
}

const Tokenizer& Run::tokenizer() {
  if (!tokenizer_) tokenizer_ = load_tokenizer(config_.data.tokenizer);
  return *tokenizer_;
}

void Run::write_run_file() const {
  Tree tree = to_tree(config_);
  write_file(directory() / "run.yaml",
             fmt::format("# The whole configuration as it ran, tessera {}.\n{}", options_.version,
                         to_yaml(tree)));
}

// Everything that does not depend on where the run starts.
void Run::prepare() {
  doing(0, "compiling");
  const RunDevice device = resolve_device(config_, world_);
  if (config_.run.threads == 0) config_.run.threads = threads_for(device.cpu, world_);
  resolve_sizes(config_);
  if (first_) {
    std::error_code failed;
    std::filesystem::create_directories(directory(), failed);
    if (failed)
      throw Error("run.directory = {}: the folder cannot be made: {}. Name another place.",
                  directory().string(), failed.message());
  }
  world_.barrier();
  if (first_) log_.open(directory() / "log.txt");
  auto library = device.library(static_cast<int>(config_.run.threads));
  share_products(*library, config_, world_, options_.now_s,
                 [this](const std::string& line) { say(line); });
  const double began = options_.now_s();
  trainer_ = std::make_unique<Trainer>(config_, std::move(library), device.memory_limit(), world_,
                                       options_.now_s);
  const double compiled = since(began);
  if (options_.heartbeat) trainer_->machine().on_start([this](const OpStart& at) { doing(at); });
  const Program& p = trainer_->program();
  double parameters = 0;
  for (const StateTensor& t : trainer_->state())
    if (t.name.find('|') == std::string::npos) parameters += static_cast<double>(t.data.elements());
  world_.all_reduce({&parameters, 1}, Reduction::kSum);
  const MemoryPlan m = memory_plan(p);
  say(fmt::format("tessera {} · run {} · {} {:.1f} M parameters · {} · {} tokens/step",
                  options_.version, config_.run.name, name_of_entry(config_.model.family),
                  parameters / 1e6, name_of_entry(config_.precision),
                  format_count(config_.batch.global * row_tokens(config_))));
  if (device.cuda)
    say(fmt::format(
        "device    {}: its kernels are not yet proven on a card, see scripts/gpu_check.sh",
        device.cuda->model));
  say(layout_line(config_));
  for (const std::string& line : memory_lines(m, trainer_->machine(), device)) say(line);
  if (evaluates())
    require_task_memory(options_.tasks.bytes(config_), device.need(m), device.memory_limit());
  require_host_memory(world_, device.host_need(m), device.cpu.memory_bytes);
  const double touching = options_.now_s();
  trainer_->machine().touch();
  say(fmt::format(
      "check     {} rank{}, {} calls each: collectives agree, every read finds what was meant, no "
      "wait can cycle",
      world_.size(), world_.size() > 1 ? "s" : "", p.schedule.size()));
  say(fmt::format("startup   config {:.2f} s, compile and check {:.2f}, touch memory {:.2f}",
                  began - options_.started_s, compiled, since(touching)));
}

// After the first step, which need not wait for it.
void Run::measure_machine() {
  Library& library = trainer_->machine().library();
  if (library.on_cuda()) say(device_memory_line(trainer_->machine()));
  const DType type =
      config_.precision == Precision::kBf16 || config_.precision == Precision::kBf16Sr
          ? DType::kBF16
          : DType::kF32;  // halves are widened
  matrix_rate_ = measure_matrix_rate(library, type, options_.now_s);
  // Of one sequence; a step has as many as the ramp says.
  sequence_flops_ = model_flops(compile_request(config_, Purpose::kTrain)) /
                    static_cast<double>(config_.batch.micro * world_.size());
}

void Run::resume(const StartingPoint& start) {
  doing(0, "reading the checkpoint");
  const double began = options_.now_s();
  CheckpointReader reader(start.checkpoint);
  const CheckpointHeader& header = reader.header();
  const bool all = start.load == Load::kAll;
  saves_->begin_from(header);
  for (const Change& c : start.resumes ? accepted_changes(config_, header.config)
                                       : changed_computation(config_, header.model))
    say(fmt::format("changed   {}: {} → {}", c.path, c.before, c.after));
  try {
    trainer_->load(reader, start.load);
  } catch (const Error& e) {
    const std::string other = other_model(config_, header.model);
    if (other.empty()) throw;
    throw Error("{}\n  {}{}", e.what(), start.checkpoint.string(), other);
  }
  if (all) {
    first_step_ = header.step + 1;
    tokens_ = header.tokens;
    position_ = position_of(header, start.checkpoint.string(), tokenizer());
    if (start.resumes && !header.tokenizer.empty())
      require_same_tokenizer(config_, start.checkpoint, tokenizer());
    if (start.resumes) saves_->resumed(header.step);
    loss_scale_.restore(header.state);
  }
  say(fmt::format("{}    {} {} in {:.2f} s", start.resumes ? "resume" : "weights",
                  all ? fmt::format("step {} from", format_count(header.step)) : "from",
                  start.checkpoint.string(), since(began)));
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
  o.waits = [this](std::string_view what) { doing(step_, what); };
  saves_.emplace(std::move(o));
  trainer_->before_update([this] { saves_->before_update(); });
  if (first_) tokenizer_bytes_ = read_file(config_.data.tokenizer);
}

// Weights, data and files, from fresh or from a checkpoint.
void Run::start() {
  make_saves();
  if (!config_.run.dump_values.empty())
    recorder_.emplace(trainer_->program(), trainer_->machine().position());
  const StartingPoint from = find_start(config_);
  for (const FoundCheckpoint& c : from.skipped)
    log_.warning("{} is not used: {}", c.path.string(), c.broken);
  if (from.checkpoint.empty())
    trainer_->initialise();
  else
    resume(from);
  doing(0, "opening the data");
  input_ = std::make_unique<TrainingInput>(config_, tokenizer());
  input_->begin(config_, trainer_->data_rank(), position_);
  validation_ = validation_sets(config_, config_.model.vocabulary, tokenizer());
  last_step_ = config_.schedule.steps;
  if (config_.run.stop_after_steps > 0)
    last_step_ = std::min(last_step_, config_.run.stop_after_steps);
  say(input_->summary(config_.schedule.steps));
  schedule_ = make_schedule(config_.schedule, config_.optimizer.learning_rate);
  world_.barrier();  // all have found the same start before anything is written
  if (!first_) return;
  record_.emplace(
      RunRecordOptions{directory(), first_step_, config_.metrics.tensorboard, options_.wall_s});
  write_run_file();
}

void Run::stop_at_bad_number(const StepResult& r) {
  saves_->finish();
  const std::string first = first_bad_value(*trainer_, world_);
  const Path last = saves_->last() < 0 ? Path() : checkpoint_at(saves_->last());
  throw Error("{}", bad_number_text(r, first, norms_, last));
}

void Run::after_step(const StepResult& r, double seconds) {
  tokens_ += static_cast<int64_t>(r.tokens);
  const bool recorded = r.step % config_.metrics.every_steps == 0 || r.step == last_step_;
  StepMetrics m;
  if (recorded && world_.size() > 1)
    m.communication = gather_communication(world_, trainer_->communication(), seconds);
  if (!first_) return;
  m.step = r.step;
  m.tokens = tokens_;
  m.loss = r.loss;
  m.grad_norm = r.grad_norm;
  m.learning_rate = learning_rate(schedule_, r.step);
  if (scales()) m.loss_scale = LossScaleMetrics{loss_scale_.scale(), !r.finite};
  m.step_s = seconds;
  m.data_s = r.data_s;
  m.tokens_per_s = r.tokens / seconds;
  const auto sequences = static_cast<double>(input_->sequences_of(r.step));
  const double flops_per_s = sequence_flops_ * sequences / seconds;
  // Others may have computed while the rate was measured; what a step reaches shows more.
  matrix_rate_ = std::max(matrix_rate_, flops_per_s);
  m.model_flops_per_s = flops_per_s;
  m.model_flops_share = flops_per_s / matrix_rate_;
  if (m.communication) exposed_share_ = m.communication->exposed_s / seconds;
  if (recorded) record_->add(m);
  norms_.push_back(r.grad_norm);
  seconds_.push_back(seconds);
  if (norms_.size() > 5) norms_.erase(norms_.begin());
  if (seconds_.size() > 20) seconds_.pop_front();
  show_progress(m, r.tokens);
}

void Run::show_progress(const StepMetrics& m, double tokens) {
  const double mean =
      std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
  ProgressState p;
  p.step = m.step;
  p.steps = last_step_;
  p.loss = m.loss;
  p.grad_norm = m.grad_norm;
  p.learning_rate = m.learning_rate;
  p.tokens_per_s = tokens / mean;
  p.flops_per_s = m.model_flops_share * matrix_rate_ * m.step_s / mean;
  p.matrix_rate_share = p.flops_per_s / matrix_rate_;
  p.exposed_share = exposed_share_;
  p.memory_bytes = resident_bytes();
  p.left_s = mean * static_cast<double>(last_step_ - m.step);
  progress_.show(p, options_.now_s());
}

// Where a step must be over before anything else is done.
bool Run::ends_alone(int64_t step) const {
  const auto every = [&](int64_t steps) { return steps > 0 && step % steps == 0; };
  return step == last_step_ || every(config_.metrics.validate_every_steps) || saves_->due(step) ||
         every(config_.evaluation.every_steps);
}

// While the device computes a step it gets the next one; what a step's numbers ask of the host is
// done meanwhile.
void Run::one_step(int64_t step) {
  step_ = step;
  doing(step, "reading the batch");
  const bool watched = config_.metrics.trace_step == step || recorder_ || step == first_step_;
  if (watched || scales() || !trainer_->can_start_step(step)) {
    finish_steps(0);
    return watched_step(step);
  }
  trainer_->start_step(step, learning_rate(schedule_, step), input_->batches());
  doing(step, "on the device");
  finish_steps(ends_alone(step) ? 0 : 1);
}

// All but the `left` that were started last.
void Run::finish_steps(int64_t left) {
  while (trainer_->under_way() > left) finish_step(trainer_->finish_step());
}

void Run::watched_step(int64_t step) {
  StepTrace trace(options_.now_s, config_.metrics.trace_step == step);
  std::function<void(const OpEvent&)> observe = trace.observer(trainer_->program());
  if (recorder_ && !trace.wanted()) observe = recorder_->observer(step);
  const StepResult r = trainer_->step(step, learning_rate(schedule_, step), input_->batches(),
                                      observe, scales() ? loss_scale_.scale() : 1);
  if (!config_.run.dump_gradients.empty() && step == first_step_)
    write_gradients(config_.run.dump_gradients, *trainer_, config_.model, save_group());
  if (recorder_) recorder_->finish(trainer_->gradients(), trainer_->state());
  finish_step(r);
  if (!trace.wanted()) return;
  const std::string title = fmt::format("step {} of {}", step, config_.run.name);
  const std::string json = trace.json(world_, title, matrix_rate_);
  if (first_) write_file(directory() / "trace.json", json);
}

void Run::finish_step(const StepResult& r) {
  const double began = std::max(r.began_s, finished_s_);
  finished_s_ = options_.now_s();
  const bool mended = scales() && loss_scale_.update(r.finite);
  if (!r.finite && !mended) stop_at_bad_number(r);
  outcome_.step = r.step;
  outcome_.loss = r.loss;
  if (r.step == first_step_) {
    say(fmt::format("first step done {:.1f} s after the start", since(options_.started_s)));
    if (first_) measure_machine();
  }
  after_step(r, finished_s_ - began);
}

void Run::validate(int64_t step) {
  for (const auto& [name, data] : validation_) {
    const int64_t limit = config_.metrics.validate_sequences;
    const int64_t sequences = limit > 0 ? std::min(limit, data->samples()) : data->samples();
    const ValidationResult r = trainer_->validate(*data, sequences);
    if (!first_) continue;
    const double bytes = static_cast<double>(data->text_bytes(tokenizer())) * r.tokens /
                         static_cast<double>(data->predicted_tokens());
    ValidationMetrics m{step, name, r.loss(), r.loss_sum / std::numbers::ln2 / bytes};
    record_->add(m);
    say(fmt::format("step {} validation {} {:.3f} ({:.3f} bits/byte)", format_count(step), name,
                    m.validation_loss, m.bits_per_byte));
  }
}

// From a checkpoint of this step, which every rank reads whole.
void Run::evaluate(int64_t step) {
  save_checkpoint(step);
  saves_->finish();
  world_.barrier();  // until it stands
  doing(step, "evaluating tasks");
  for (const TaskMetrics& m : options_.tasks.run(checkpoint_at(step), config_, world_)) {
    if (!first_) continue;
    record_->add(step, m);
    say(fmt::format("step {} {}", format_count(step), text_of(m)));
  }
}

void Run::save_checkpoint(int64_t step) {
  CheckpointHeader header;
  header.step = step;
  header.tokens = tokens_;
  if (scales()) header.state = loss_scale_.state();
  header.state.set("data", input_->position_after(step));
  header.config = to_tree(config_);
  header.model = to_tree(config_.model);
  header.version = options_.version;
  header.tokenizer = tokenizer_bytes_;
  saves_->start(std::move(header), trainer_->state());
}

SaveGroup Run::save_group() const {
  return {static_cast<int>(world_.rank()), static_cast<int>(world_.size()),
          [this] { world_.barrier(); }};
}

// A signal may reach the ranks at different steps: one of them is enough for all.
bool Run::asked_to_stop(const StopSignals& signals) const {
  const bool told = options_.heartbeat && options_.heartbeat->asked_to_stop();
  double asked = signals.requested() || told ? 1 : 0;
  if (world_.size() > 1) world_.all_reduce({&asked, 1}, Reduction::kMax);
  return asked > 0;
}

TrainOutcome Run::go() {
  StopSignals signals;
  prepare();
  start();
  outcome_.step = first_step_ - 1;
  for (int64_t step = first_step_; step <= last_step_; ++step) {
    saves_->between_steps();
    if (asked_to_stop(signals)) {
      outcome_.interrupted = true;
      finish_steps(0);
      break;
    }
    one_step(step);
    const int64_t every = config_.metrics.validate_every_steps;
    if (step < last_step_ && every > 0 && step % every == 0) validate(step);
    if (step < last_step_ && saves_->due(step)) save_checkpoint(step);
    const int64_t tasks_every = config_.evaluation.every_steps;
    if (step < last_step_ && tasks_every > 0 && step % tasks_every == 0) evaluate(step);
  }
  progress_.finish();
  if (!outcome_.interrupted && first_step_ <= last_step_) validate(outcome_.step);
  if (outcome_.step > 0 || last_step_ == 0) save_checkpoint(outcome_.step);
  saves_->finish();
  if (evaluates() && !outcome_.interrupted && first_step_ <= last_step_) evaluate(outcome_.step);
  if (recorder_)
    write_file(Path(config_.run.dump_values) / fmt::format("values-{}.txt", world_.rank()),
               to_text(recorder_->records()));
  world_.barrier();  // no rank leaves before the checkpoint stands
  if (saves_->last() >= 0) outcome_.checkpoint = checkpoint_at(saves_->last()).string();
  if (outcome_.interrupted)
    say("stopped by a signal; the run goes on from here when started again");
  return outcome_;
}

}  // namespace

TrainOutcome train(RunConfig config, const TrainOptions& options) {
  return Run(std::move(config), options).go();
}

}  // namespace tessera
