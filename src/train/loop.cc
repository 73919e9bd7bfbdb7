#include "train/loop.h"

#include <cmath>
#include <deque>
#include <numbers>
#include <numeric>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/folders.h"
#include "checkpoint/hf_folder.h"
#include "data/tokenizer.h"
#include "train/data_lines.h"
#include "train/diagnose.h"
#include "train/doing.h"
#include "train/gradient_file.h"
#include "train/layout_line.h"
#include "train/load_start.h"
#include "train/origin.h"
#include "train/run_data.h"
#include "train/run_device.h"
#include "train/run_folder.h"
#include "train/run_products.h"
#include "train/run_programs.h"
#include "train/run_record.h"
#include "train/saves.h"
#include "train/schedule.h"
#include "train/signals.h"
#include "train/step_judge.h"
#include "train/step_trace.h"
#include "train/trainer.h"
#include "train/update_count.h"
#include "train/value_record.h"

namespace tessera {
namespace {

class Run {
 public:
  Run(RunConfig config, const TrainOptions& options)
      : config_(std::move(config)),
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
  LoadedStart resume(const StartingPoint& start);
  void one_step(int64_t step);
  void watched_step(int64_t step);
  void finish_steps(int64_t left);
  void finish_step(const StepResult& r);
  bool ends_alone(int64_t step) const;
  void after_step(const StepResult& r, double seconds);
  void show_progress(const StepMetrics& m, double tokens);
  [[noreturn]] void stop_at_bad_number(const StepResult& r, bool updated = false);
  [[noreturn]] void stop_diverged();
  void validate(int64_t step);
  void evaluate(int64_t step);
  void make_saves();
  void save_checkpoint(int64_t step, bool prunes = true);
  SaveGroup save_group() const;
  bool asked_to_stop(const StopSignals& signals) const;
  void write_run_file() const;
  void say(const std::string& line);
  void doing(int64_t step, std::string_view what) const;
  void doing(const OpStart& at) const;
  const Tokenizer& tokenizer();
  bool evaluates() const { return !config_.evaluation.tasks.empty(); }
  double rate() const { return learning_rate(schedule_, trainer_->next_update()); }
  double since(double s) const { return options_.now_s() - s; }
  Path directory() const { return config_.run.directory; }

  RunConfig config_;
  const TrainOptions& options_;
  std::unique_ptr<World> alone_;  // where no world was given
  World& world_;
  bool first_;  // of the ranks: the one that writes and says things
  Log log_;
  Progress progress_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<StepJudge> judge_;  // of a configuration that is resolved
  std::unique_ptr<TrainingRows> rows_;
  std::unique_ptr<BatchSource> batches_;
  std::vector<ValidationSet> validation_;
  std::optional<RunRecord> record_;  // of the first rank
  std::string tokenizer_bytes_;      // for checkpoints; of the first rank
  std::optional<Saves> saves_;
  std::optional<ValueRecorder> recorder_;  // where values are dumped
  Schedule schedule_;
  double matrix_rate_ = 0, sequence_flops_ = 0, exposed_share_ = -1;
  int64_t first_step_ = 1, last_step_ = 0, tokens_ = 0;
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
  if (!tokenizer_) tokenizer_ = load_tokenizer(tokenizer_of_run(config_));
  return *tokenizer_;
}

void Run::write_run_file() const {
  write_file(directory() / "run.yaml",
             fmt::format("# The whole configuration as it ran, tessera {}.\n{}", options_.version,
                         to_yaml(to_tree(config_))));
}

// Everything that does not depend on where the run starts.
void Run::prepare() {
  doing(0, "compiling");
  const RunDevice device = resolve_device(config_, world_);
  if (config_.run.threads == 0) config_.run.threads = threads_for(device.cpu, world_);
  resolve_sizes(config_);
  judge_.emplace(config_);
  if (first_) make_run_directory(directory());
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

LoadedStart Run::resume(const StartingPoint& start) {
  doing(0, "reading the checkpoint");
  const double began = options_.now_s();
  LoadedStart loaded = load_newest_intact(
      start, world_,
      [&](const Path& p) {
        return load_checkpoint(p, start, config_, *trainer_, [this](auto& line) { say(line); });
      },
      [this](const std::string& line) { log_.warning("{}", line); });
  const CheckpointHeader& header = loaded.header;
  const bool all = start.load == Load::kAll;
  saves_->begin_from(header);
  if (all) {
    first_step_ = header.step + 1;
    tokens_ = header.tokens;
    if (is_own(directory(), loaded.checkpoint)) saves_->resumed(header.step);
    judge_->restore(header.state);
  }
  say(fmt::format("{:<9} {} {} in {:.2f} s", start.resumes ? "resume" : "weights",
                  all ? fmt::format("step {} from", format_count(header.step)) : "from",
                  loaded.checkpoint.string(), since(began)));
  return loaded;
}

void Run::make_saves() {
  SavesOptions o;
  o.folder = directory() / "checkpoints";
  o.rules = config_.checkpoint;
  o.tokens_after = [shape = batch_shape(config_, 0), each = row_tokens(config_)](int64_t steps) {
    return shape.samples_before(steps) * each;
  };
  o.world = &world_;
  o.now_s = options_.now_s;
  o.before_visible = [this] {
    if (record_) record_->sync();
  };
  o.say = [this](const std::string& line) { say(line); };
  o.waits = [this](std::string_view what) { doing(step_, what); };
  saves_.emplace(std::move(o));
  trainer_->before_update([this] { saves_->before_update(); });
  if (first_) tokenizer_bytes_ = read_file(tokenizer_of_run(config_));
}

// Weights, data and files, from fresh or from a checkpoint.
void Run::start() {
  make_saves();
  if (!config_.run.dump_values.empty())
    recorder_.emplace(trainer_->program(), trainer_->machine().position());
  const StartingPoint from =
      agreed_start(world_, [this] { return find_start(config_, options_.from_step); });
  for (const Path& p : from.unfinished)
    log_.warning("{} is not used: its save was not finished", p.string());
  LoadedStart loaded;
  if (from.candidates.empty())
    trainer_->initialise();
  else
    loaded = resume(from);
  doing(0, "opening the data");
  rows_ = std::make_unique<TrainingRows>(config_, config_.model.vocabulary, tokenizer());
  BatchShape shape = batch_shape(config_, trainer_->data_rank());
  shape.sequence_length = rows_->row_tokens();
  shape.source_length = rows_->row_source();
  batches_ = std::make_unique<BatchSource>(
      shape, [this](int64_t sample, const SampleRow& row) { rows_->read_row(sample, row); });
  validation_ = validation_sets(config_, config_.model.vocabulary, tokenizer());
  last_step_ = config_.schedule.steps;
  if (config_.run.stop_after_steps > 0)
    last_step_ = std::min(last_step_, config_.run.stop_after_steps);
  const int64_t samples = shape.samples_before(config_.schedule.steps);
  for (const std::string& line : data_lines(*rows_, validation_, samples)) say(line);
  outcome_.data = data_counts(*rows_, samples);
  schedule_ = make_schedule(config_.schedule, config_.optimizer.learning_rate);
  world_.barrier();  // all have found the same start before anything is written
  if (!first_) return;
  const double wall_s = options_.wall_s ? options_.wall_s() : 0;
  for (const std::string& line : make_way(directory(), from, loaded, first_step_ - 1, wall_s))
    say(line);
  for (const std::string& set : foreign_datasets(config_, tokenizer())) say("warning   " + set);
  record_.emplace(
      RunRecordOptions{directory(), first_step_, config_.metrics.tensorboard, options_.wall_s});
  write_run_file();
}

// `updated`: step r is done, and the loss is that of its new weights. Otherwise step r changed
// nothing, so the state is that of the step before it, which is saved if its loss was finite.
void Run::stop_at_bad_number(const StepResult& r, bool updated) {
  const std::string first = first_bad_value(*trainer_, world_);
  if (!updated && std::isfinite(r.loss) && r.step > first_step_) save_checkpoint(r.step - 1, false);
  saves_->finish();
  throw NumericError("{}", judge_->bad_number_text(r, updated, first, saves_->last_path()));
}

// The weights are finite, so the step is saved; earlier checkpoints stay.
void Run::stop_diverged() {
  while (trainer_->under_way() > 0)
    if (const StepResult r = trainer_->finish_step(); r.finite) after_step(r, since(finished_s_));
  save_checkpoint(outcome_.step, false);
  saves_->finish();
  throw NumericError("{}", judge_->divergence_text(outcome_.step));
}

void Run::after_step(const StepResult& r, double seconds) {
  outcome_.step = r.step;
  outcome_.loss = r.loss;
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
  m.learning_rate = r.learning_rate;
  if (judge_->scales()) m.loss_scale = LossScaleMetrics{judge_->loss_scale(), !r.finite};
  m.step_s = seconds;
  m.data_s = r.data_s;
  m.tokens_per_s = r.tokens / seconds;
  const auto sequences = static_cast<double>(batches_->shape().global_at(r.step - 1));
  const double flops_per_s = sequence_flops_ * sequences / seconds;
  // Others may have computed while the rate was measured; what a step reaches shows more.
  matrix_rate_ = std::max(matrix_rate_, flops_per_s);
  m.model_flops_per_s = flops_per_s;
  m.model_flops_share = flops_per_s / matrix_rate_;
  if (m.communication) exposed_share_ = m.communication->exposed_s / seconds;
  if (recorded) record_->add(m);
  seconds_.push_back(seconds);
  if (seconds_.size() > 20) seconds_.pop_front();
  show_progress(m, r.tokens);
}

void Run::show_progress(const StepMetrics& m, double tokens) {
  const double mean =
      std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
  ProgressState p = progress_of(m, tokens, mean, matrix_rate_);
  p.steps = last_step_;
  p.exposed_share = exposed_share_;
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
  if (watched || judge_->scales() || !trainer_->can_start_step(step)) {
    finish_steps(0);
    return watched_step(step);
  }
  trainer_->start_step(step, rate(), *batches_);
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
  const StepResult r = trainer_->step(step, rate(), *batches_, observe, judge_->loss_scale());
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
  const StepVerdict verdict = judge_->judge(r);
  if (verdict == StepVerdict::kBadNumber) stop_at_bad_number(r);
  if (r.step == first_step_) {
    say(fmt::format("first step done {:.1f} s after the start", since(options_.started_s)));
    if (first_) measure_machine();
  }
  after_step(r, finished_s_ - began);
  if (const std::string warning = judge_->warning(r, saves_->last()); !warning.empty() && first_)
    say("warning   " + warning);
  if (verdict == StepVerdict::kDiverged) stop_diverged();
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
    say(validation_line(m));
  }
}

// From a checkpoint of this step, which every rank reads whole.
void Run::evaluate(int64_t step) {
  save_checkpoint(step);
  saves_->finish();
  world_.barrier();  // until it stands
  doing(step, "evaluating tasks");
  for (const TaskMetrics& m : options_.tasks.run(saves_->last_path(), config_, world_)) {
    if (!first_) continue;
    record_->add(step, m);
    say(fmt::format("step {} {}", format_count(step), text_of(m)));
  }
}

void Run::save_checkpoint(int64_t step, bool prunes) {
  if (saves_->is_saved(step)) return;
  if (step >= first_step_) {
    const double loss = trainer_->loss_on_last_batch();
    if (!std::isfinite(loss)) stop_at_bad_number({.step = step, .loss = loss}, true);
    prunes = prunes && judge_->may_prune(loss);
  }
  CheckpointHeader header;
  header.step = step;
  header.tokens = tokens_;
  judge_->save(header.state);
  save_updates(trainer_->updates(), header.state);
  header.config = to_tree(config_);
  header.model = to_tree(config_.model);
  header.version = options_.version;
  header.tokenizer = tokenizer_bytes_;
  if (rows_->instructions()) set_ends(rows_->instructions()->stops(), header);
  saves_->start(std::move(header), trainer_->state(), prunes);
}

SaveGroup Run::save_group() const {
  return {static_cast<int>(world_.rank()), static_cast<int>(world_.size()),
          [this] { world_.barrier(); }, [this](std::string& text) { world_.broadcast(text, 0); }};
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
  if (!outcome_.interrupted && judge_->ends_diverged()) stop_diverged();
  if (evaluates() && !outcome_.interrupted && first_step_ <= last_step_) evaluate(outcome_.step);
  if (recorder_)
    write_file(Path(config_.run.dump_values) / fmt::format("values-{}.txt", world_.rank()),
               to_text(recorder_->records()));
  world_.barrier();  // no rank leaves before the checkpoint stands
  outcome_.checkpoint = saves_->last_path();
  if (outcome_.interrupted)
    say("stopped by a signal; the run goes on from here when started again");
  return outcome_;
}

}  // namespace

TrainOutcome train(RunConfig config, const TrainOptions& options) {
  return Run(std::move(config), options).go();
}

}  // namespace tessera
