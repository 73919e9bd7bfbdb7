#include "train/loop.h"

#include <array>
#include <cmath>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/hf_folder.h"
#include "comm/agree.h"
#include "train/data_lines.h"
#include "train/diagnose.h"
#include "train/doing.h"
#include "train/last_save.h"
#include "train/progress.h"
#include "train/run.h"
#include "train/run_device.h"
#include "train/step_trace.h"
#include "train/update_count.h"

namespace tessera {
namespace {

constexpr double kValidationLineS = 30;  // seconds between lines about a long validation

}  // namespace

void Run::say(const std::string& line) {
  progress_.finish();
  log_.info("{}", line);
}

void Run::warn(const std::string& line) {
  progress_.finish();
  log_.warning("{}", line);
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

// An earlier start may have saved its last step and ended before it recorded everything.
void Run::catch_up() {
  const int64_t step = first_step_ - 1;
  if (step <= 0 || saves_->last() != step) return;
  std::array<double, 2> lacks = {0, 0};
  if (first_ && validates_at(step))
    for (const ValidationSet& set : validation_->sets())
      lacks[0] += record_->has_line_before_start(set.name) ? 0 : 1;
  if (first_ && evaluates_at(step))
    for (const std::string& name : options_.tasks.names)
      lacks[1] += record_->has_line_before_start(name) ? 0 : 1;
  world_.all_reduce(lacks, Reduction::kMax);
  if (lacks[0] > 0) validate(step);
  if (lacks[1] > 0) evaluate(step);
}

// `updated`: step r is done, and the loss is that of its new weights, which are not saved.
// Otherwise step r changed nothing, and the state before it is saved if its loss is finite; its
// next update is not, so the last good checkpoint is the one before it.
void Run::stop_at_bad_number(const StepResult& r, bool updated) {
  whole_ = false;
  const std::string first = first_bad_value(*trainer_, world_);
  std::string failed;
  try {
    if (!updated && std::isfinite(r.loss) && outcome_.step >= first_step_) save_last(false);
    saves_->finish();
  } catch (const SharedError& e) {
    failed = std::string("\n  ") + e.what();
  }
  const int64_t bad = updated ? r.step : std::max(judge_->last_update(), first_step_ - 1);
  throw NumericError("{}{}", judge_->bad_number_text(r, updated, first, saves_->path_before(bad)),
                     failed);
}

// The weights are finite, so the step is saved; earlier checkpoints stay.
void Run::stop_diverged() {
  while (trainer_->under_way() > 0) {
    const StepResult r = trainer_->finish_step();
    if (!r.finite) continue;
    complete(r);
    after_step(r, since(finished_s_));
  }
  whole_ = true;
  save_last(false);
  throw NumericError("{}", judge_->divergence_text(outcome_.step));
}

void Run::after_step(const StepResult& r, double seconds) {
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
  figures_.add(m, r.tokens, input_->sequences_of(r.step));
  if (recorded) record_->add(m);
  progress_.show(figures_.progress(m, r.tokens, last_step_), options_.now_s());
}

// Where a step must be over before anything else is done.
bool Run::ends_alone(int64_t step) const {
  return validates_at(step) || evaluates_at(step) || saves_->due(step) || retry_save_;
}

// Reads the batch, and agrees with the other ranks whether the step begins: so an error of one rank
// alone, or a signal that reached one, ends the step before any rank waits for another in it.
bool Run::begin_step(int64_t step) {
  step_ = step;
  doing(step, "reading the batch");
  const bool watched =
      config_.metrics.trace_step == step || dumps_->values() || step == first_step_;
  ahead_ = !watched && !judge_->scales() && trainer_->can_start_step(step);
  if (!ahead_) finish_steps(0);
  std::string failed;
  try {
    trainer_->prepare_step(step, rate(), input_->batches(), judge_->loss_scale());
  } catch (const std::exception& e) {
    failed = e.what();
  }
  std::array<double, 3> any = {asked_to_stop() ? 1.0 : 0, failed.empty() ? 0 : 1.0,
                               saves_->retry_due() ? 1.0 : 0};
  if (world_.size() > 1) world_.all_reduce(any, Reduction::kMax);
  retry_save_ = any[2] > 0;
  outcome_.interrupted = any[0] > 0;
  if (any[0] == 0 && any[1] > 0) require_no_error(world_, failed);
  return !outcome_.interrupted;
}

// The next step is started while the device computes this one; the host records the results of
// finished steps meanwhile.
void Run::one_step(int64_t step) {
  if (!ahead_) return watched_step(step);
  whole_ = false;
  trainer_->start_step();
  doing(step, "on the device");
  finish_steps(ends_alone(step) ? 0 : 1);
}

// All but the `left` that were started last.
void Run::finish_steps(int64_t left) {
  while (trainer_->under_way() > left) {
    whole_ = false;
    const StepResult r = trainer_->finish_step();
    whole_ = trainer_->under_way() == 0;
    count_step(r);
    finish_step(r);
  }
}

void Run::watched_step(int64_t step) {
  StepTrace trace(options_.now_s, config_.metrics.trace_step == step);
  std::function<void(const OpEvent&)> observe = trace.observer(trainer_->program());
  if (dumps_->values() && !trace.wanted()) observe = dumps_->observer(step);
  whole_ = false;
  const StepResult r = trainer_->run_step(observe);
  whole_ = true;
  count_step(r);
  dumps_->after_step(*trainer_, step == first_step_);
  finish_step(r);
  if (!trace.wanted()) return;
  const std::string title = fmt::format("step {} of {}", step, config_.run.name);
  const std::string json = trace.json(world_, title, figures_.matrix_rate());
  if (!first_) return;
  try {
    write_file(directory() / "trace.json", json);
  } catch (const Error& e) {
    warn(e.what());
  }
}

void Run::complete(const StepResult& r) {
  outcome_.step = r.step;
  outcome_.loss = r.loss;
  tokens_ += static_cast<int64_t>(r.tokens);
}

// From here on the step is completed: whatever fails, it is saved.
void Run::count_step(const StepResult& r) {
  verdict_ = judge_->judge(r);
  if (verdict_ != StepVerdict::kBadNumber) complete(r);
}

void Run::measure() {
  PreparedKernels& kernels = trainer_->machine().kernels();
  if (kernels.on_gpu()) say(device_memory_line(trainer_->machine()));
  figures_.measure(config_, kernels, world_.size(), options_.now_s);
  if (const std::string& why = figures_.rate_error(); !why.empty())
    warn(
        fmt::format("the matrix rate could not be measured ({}). The log has shares of the fastest "
                    "step instead.",
                    why));
}

void Run::finish_step(const StepResult& r) {
  const double began = std::max(r.began_s, finished_s_);
  finished_s_ = options_.now_s();
  if (verdict_ == StepVerdict::kBadNumber) stop_at_bad_number(r);
  if (r.step == first_step_) {
    say(fmt::format("first step done {:.1f} s after the start", since(options_.started_s)));
    if (first_) measure();
  }
  after_step(r, finished_s_ - began);
  if (const std::string warning = judge_->warning(r, saves_->last()); !warning.empty() && first_)
    say("warning   " + warning);
  if (verdict_ == StepVerdict::kDiverged) stop_diverged();
}

void Run::validate(int64_t step) {
  doing(step, "validating");
  const double began = options_.now_s();
  double last_line = began;
  const auto told = [&](const std::string& set, int64_t done, int64_t samples) {
    if (!first_ || done == samples || since(last_line) < kValidationLineS) return;
    last_line = options_.now_s();
    say(fmt::format("validation of {}: {} of {} samples after {}", set, format_count(done),
                    format_count(samples), format_duration(since(began))));
  };
  for (const ValidationMetrics& m : validation_->measure(*trainer_, world_, step, told)) {
    if (!first_) continue;
    record_->add(m);
    say(validation_line(m));
  }
}

// From a checkpoint of this step, which every rank reads whole.
void Run::evaluate(int64_t step) {
  save_checkpoint(step);
  saves_->finish();
  if (saves_->last() != step)
    return warn(
        fmt::format("step {} is not evaluated, because it could not be saved", format_count(step)));
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
    const bool tries = judge_->is_suspicious(loss);
    if (!std::isfinite(loss) || (tries && !trainer_->can_continue()))
      stop_at_bad_number({.step = step, .loss = loss}, true);
    prunes = prunes && judge_->may_prune(loss);
  }
  CheckpointHeader header;
  header.step = step;
  header.tokens = tokens_;
  judge_->save(header.state);
  save_updates(trainer_->updates(), header.state);
  header.state.set("data", input_->position_after(step));
  header.config = to_tree(config_);
  header.model = to_tree(config_.model);
  header.version = options_.version;
  header.tokenizer = tokenizer_bytes_;
  if (const InstructionData* data = input_->rows().instructions()) set_ends(data->stops(), header);
  saves_->start(std::move(header), trainer_->state(), prunes);
}

void Run::save_last(bool prunes) {
  try {
    save_last_step(
        *saves_, outcome_.step, [&] { save_checkpoint(outcome_.step, prunes); }, world_, signals_,
        static_cast<double>(config_.checkpoint.retry_s), options_.now_s);
  } catch (...) {
    whole_ = false;  // it is not tried again
    throw;
  }
}

bool Run::asked_to_stop() const {
  return signals_.requested() || (options_.heartbeat && options_.heartbeat->asked_to_stop());
}

void Run::run_steps() {
  catch_up();
  for (int64_t step = first_step_; step <= last_step_; ++step) {
    saves_->between_steps();
    if (!begin_step(step)) break;
    one_step(step);
    if (step == last_step_) break;
    if (validates_at(step)) validate(step);
    if (saves_->due(step) || retry_save_) save_checkpoint(step);
    if (evaluates_at(step)) evaluate(step);
  }
  finish_steps(0);
}

// Saves first: nothing after it can lose the last step.
void Run::finish() {
  progress_.finish();
  if (config_.checkpoint.save_at_end && (outcome_.step > 0 || last_step_ == 0)) save_last();
  if (!outcome_.interrupted && judge_->ends_diverged()) stop_diverged();
  if (!outcome_.interrupted && first_step_ <= last_step_) {
    validate(outcome_.step);
    if (evaluates()) evaluate(outcome_.step);
  }
  on_all(world_, [this] { dumps_->finish(); });
}

// After an error: saves the last completed step if the state is that step's and all ranks are here.
void Run::end_with(const std::exception& error) {
  if (dynamic_cast<const NumericError*>(&error) != nullptr) throw;  // what may be saved is saved
  const bool all_here = world_.size() == 1 || dynamic_cast<const SharedError*>(&error) != nullptr;
  if (!all_here || outcome_.step < first_step_ || !config_.checkpoint.save_at_end) throw;
  if (!whole_ && trainer_->under_way() == 0) throw;
  std::string saved;
  try {
    finish_steps(0);
    save_last();
    saved = fmt::format("Step {} is saved: {}.", format_count(outcome_.step),
                        last_checkpoint().string());
  } catch (const std::exception& second) {
    saved = second.what();
  }
  const std::string text = fmt::format("{}\n  {}", error.what(), saved);
  if (world_.size() > 1) throw SharedError(text);
  throw Error(text);
}

TrainOutcome Run::go() {
  prepare();
  start();
  try {
    run_steps();
    finish();
  } catch (const std::exception& error) {
    end_with(error);
  }
  world_.barrier();  // no rank leaves before the checkpoint stands
  outcome_.checkpoint = last_checkpoint().string();
  if (outcome_.interrupted)
    say("stopped by a signal; the run goes on from here when started again");
  return outcome_;
}

TrainOutcome train(RunConfig config, const TrainOptions& options) {
  return Run(std::move(config), options).go();
}

}  // namespace tessera
