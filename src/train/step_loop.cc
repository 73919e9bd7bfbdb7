// The training loop: steps, validations, saves, and all ways in which a run ends.
//
// All ranks follow the same branches. Decisions that depend on a single rank (a signal, a failed
// read, a retry of a save) are combined by an all-reduce before a step begins, so that no rank
// waits in a collective that another one skips. `whole_` is true while the state is that of a
// completed step; only then a save after an error is possible.
#include "train/step_loop.h"

#include <array>
#include <cmath>

#include "base/count.h"
#include "base/error.h"
#include "checkpoint/hf_folder.h"
#include "comm/agree.h"
#include "kernels/gpu_backend.h"
#include "train/checkpoint_scheduler.h"
#include "train/diagnose.h"
#include "train/loop.h"
#include "train/run_device.h"
#include "train/step_trace.h"
#include "train/trainer.h"

namespace tessera::train {
namespace {

constexpr double kValidationLineS = 30;  // seconds between lines about a long validation

bool is_multiple(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

// Steps of one micro-batch, which a batch-size warm-up may have, have no smaller part.
bool measures_noise(const RunParts& parts, int64_t step) {
  const config::RunConfig& c = parts.config;
  return is_multiple(step, c.metrics.noise_scale_every_steps) &&
         parts.input->sequences_of(step) > c.batch.micro * c.layout.data;
}

std::span<const ValidationLoss> validations_before(RunReporter& reporter) {
  const MetricsRecorder* const record = reporter.record();
  return record != nullptr ? record->validations_before_start() : std::span<const ValidationLoss>();
}

}  // namespace

StepLoop::StepLoop(RunParts& parts, const TrainOptions& options, comm::World& world,
                   const StopSignals& signals, RunReporter& reporter)
    : parts_(parts),
      config_(parts.config),
      options_(options),
      world_(world),
      signals_(signals),
      reporter_(reporter),
      tokens_(parts.tokens),
      time_limit_(parts.config.run, options.started_s),
      early_stop_(parts.config.schedule.stop, validations_before(reporter)) {
  outcome_.step = parts.first_step - 1;
  outcome_.data = parts.data;
  if (options.heartbeat)
    parts.trainer->engine().hooks().started = [this](const runtime::OpStart& at) {
      reporter_.doing(at, parts_.saves->under_way());
    };
}

// Repeats validations and evaluations of the last step that are not in the metrics: an earlier
// start may have saved its last step and ended before it recorded everything.
void StepLoop::catch_up() {
  const int64_t step = parts_.first_step - 1;
  if (step <= 0 || parts_.saves->last() != step) return;
  std::array<double, 2> lacks = {0, 0};
  if (reporter_.is_rank0() && validates_at(step))
    for (const ValidationSet& set : parts_.validation->sets())
      lacks[0] += reporter_.record()->has_line_before_start(set.name) ? 0 : 1;
  if (reporter_.is_rank0() && evaluates_at(step))
    for (const std::string& name : options_.tasks.names)
      lacks[1] += reporter_.record()->has_line_before_start(name) ? 0 : 1;
  // Only rank 0 has read the metrics, but all ranks must repeat the same evaluations.
  world_.all_reduce(lacks, comm::Reduction::kMax);
  if (lacks[0] > 0) validate(step);
  if (lacks[1] > 0) evaluate(step);
}

// Ends the run because a number is not finite. `updated`: step r is done, and the loss belongs to
// its new weights, which are not saved. Otherwise step r changed nothing, and the state before it
// is saved if its loss is finite. The update of that state is not finite, so the message names the
// checkpoint before it as the last good one.
void StepLoop::stop_at_bad_number(const StepResult& r, bool updated) {
  whole_ = false;
  const std::string first = first_bad_value(*parts_.trainer, world_);
  std::string failed;
  try {
    if (!updated && std::isfinite(r.loss) && outcome_.step >= parts_.first_step) save_last(false);
    parts_.saves->finish();
  } catch (const comm::SharedError& e) {
    failed = std::string("\n  ") + e.what();
  }
  const int64_t bad =
      updated ? r.step : std::max(parts_.judge->last_update(), parts_.first_step - 1);
  throw NumericError(
      "{}{}", parts_.judge->bad_number_text(r, updated, first, parts_.saves->path_before(bad)),
      failed);
}

// Ends a diverged run. The weights are finite, so the step is saved. Earlier checkpoints are kept.
void StepLoop::stop_diverged() {
  // Steps that were already started change the weights when they finish, so they are completed
  // before the save: a checkpoint holds the state after a whole step.
  while (parts_.trainer->under_way() > 0) {
    const StepResult r = parts_.trainer->finish_step();
    if (!r.finite) continue;
    complete(r);
    after_step(r, since(finished_s_));
  }
  whole_ = true;
  save_last(false);
  throw NumericError("{}", parts_.judge->divergence_text(outcome_.step));
}

void StepLoop::after_step(const StepResult& r, double seconds) {
  time_limit_.add_step(seconds);
  const bool recorded = r.step % config_.metrics.every_steps == 0 || r.step == parts_.last_step ||
                        measures_noise(parts_, r.step);
  StepMetrics m;
  if (recorded && world_.size() > 1)
    m.communication = gather_communication(world_, *r.communication, seconds);
  m.step = r.step;
  m.tokens = tokens_;
  m.loss = r.loss;
  m.grad_norm = r.grad_norm;
  m.learning_rate = r.learning_rate;
  if (parts_.judge->scales())
    m.loss_scale = LossScaleMetrics{parts_.judge->loss_scale(), !r.finite};
  if (r.router)
    m.router =
        RouterMetrics{r.router->loss, r.router->busiest, r.router->entropy, r.router->dropped};
  m.z_loss = r.z_loss;
  m.mtp_loss = r.mtp_loss;
  if (measures_noise(parts_, r.step)) m.noise_scale = parts_.noise.value();
  m.preference = r.preference;
  m.step_s = seconds;
  m.data_s = r.data_s;
  reporter_.add(m, r.tokens, parts_.input->sequences_of(r.step), parts_.last_step, recorded);
}

// Returns true if a step must be finished before the next one is started, because something reads
// the state after it.
bool StepLoop::ends_alone(int64_t step) const {
  return validates_at(step) || evaluates_at(step) || parts_.saves->due(step) || retry_save_;
}

// Reads the batch and agrees with the other ranks on whether the step begins, so that after an
// error or a signal on one rank no other rank waits for it in the step. Returns false if the run
// stops.
bool StepLoop::begin_step(int64_t step) {
  reporter_.doing(step, "reading the batch");
  const bool watched = config_.metrics.trace_step == step || parts_.dumps->values() ||
                       step == parts_.first_step || parts_.source_losses->due(step) ||
                       measures_noise(parts_, step);
  // The next step is started ahead only if nothing on the host depends on the result of this one:
  // traces, dumps and losses by dataset observe single steps, and a dynamic loss scale is chosen
  // after each step.
  ahead_ = !watched && !parts_.judge->scales() && parts_.trainer->can_start_step(step);
  if (!ahead_) finish_steps(0);
  std::string failed;
  try {
    options_.owner.require();
    parts_.trainer->prepare_step(
        step, config::learning_rate(parts_.schedule, parts_.trainer->next_update()),
        parts_.input->batches(), parts_.judge->loss_scale());
  } catch (const std::exception& e) {
    failed = e.what();
  }
  const bool asked_to_stop =
      signals_.requested() || (options_.heartbeat && options_.heartbeat->asked_to_stop());
  const bool out_of_time = time_limit_.is_over(options_.now_s(), parts_.saves->longest_save_s());
  std::array<double, 4> any = {asked_to_stop ? 1.0 : 0, failed.empty() ? 0 : 1.0,
                               parts_.saves->retry_due() ? 1.0 : 0, out_of_time ? 1.0 : 0};
  if (world_.size() > 1) world_.all_reduce(any, comm::Reduction::kMax);
  retry_save_ = any[2] > 0;
  outcome_.out_of_time = any[0] == 0 && any[3] > 0;
  outcome_.interrupted = any[0] > 0 || outcome_.out_of_time;
  // A stop request takes precedence: the run ends with a save and needs no further batch.
  if (!outcome_.interrupted && any[1] > 0) comm::require_no_error(world_, failed);
  return !outcome_.interrupted;
}

// Runs a step. If possible it is started while the device may still compute the one before it, and
// the results of finished steps are recorded meanwhile. A step that is observed runs alone.
void StepLoop::one_step(int64_t step) {
  if (!ahead_) return watched_step(step);
  whole_ = false;
  parts_.trainer->start_step();
  reporter_.doing(step, "on the device");
  finish_steps(ends_alone(step) ? 0 : 1);
}

// Finishes all started steps except the last `left` ones.
void StepLoop::finish_steps(int64_t left) {
  while (parts_.trainer->under_way() > left) {
    whole_ = false;
    const StepResult r = parts_.trainer->finish_step();
    whole_ = parts_.trainer->under_way() == 0;
    count_step(r);
    finish_step(r);
  }
}

void StepLoop::watched_step(int64_t step) {
  StepTrace trace(options_.now_s, config_.metrics.trace_step == step);
  std::function<void(const runtime::OpEvent&)> observe = trace.observer(parts_.trainer->program());
  if (parts_.dumps->values() && !trace.wanted()) observe = parts_.dumps->observer(step);
  std::vector<SourceMetrics> by_source;
  if (parts_.source_losses->due(step)) {
    reporter_.doing(step, "measuring the loss of each dataset");
    by_source = parts_.source_losses->measure(*parts_.trainer, step);
  }
  std::optional<GradientOfBatch> part;
  if (measures_noise(parts_, step)) {
    reporter_.doing(step, "measuring the gradient-noise scale");
    part = parts_.trainer->gradient_of_part();
  }
  whole_ = false;
  const StepResult r = parts_.trainer->run_step(observe);
  whole_ = true;
  if (part) parts_.noise.add(*part, {parts_.input->sequences_of(step), r.grad_norm});
  count_step(r);
  parts_.dumps->after_step(*parts_.trainer, step == parts_.first_step);
  finish_step(r);
  for (const SourceMetrics& m : by_source) reporter_.add(m);
  if (!trace.wanted()) return;
  const std::string title = fmt::format("step {} of {}", step, config_.run.name);
  const std::string json = trace.json(world_, title, reporter_.figures().matrix_rate());
  if (!reporter_.is_rank0() || !options_.owner.owns()) return;
  try {
    const Path path = write_trace(config_.run.directory, step, json);
    if (path.filename() != "trace.json")
      reporter_.say(fmt::format("trace     written to {}: your file trace.json is not overwritten",
                                path.string()));
  } catch (const Error& e) {
    reporter_.warn(e.what());
  }
}

void StepLoop::complete(const StepResult& r) {
  outcome_.step = r.step;
  outcome_.loss = r.loss;
  tokens_ += std::llrint(r.tokens);
}

// Counts a finished step as completed, so that it is saved even if a later operation fails.
void StepLoop::count_step(const StepResult& r) {
  verdict_ = parts_.judge->judge(r);
  if (verdict_ != StepVerdict::kBadNumber) complete(r);
}

void StepLoop::measure() {
  runtime::PreparedKernels& kernels = parts_.trainer->engine().kernels();
  if (const kernels::GpuBackend* const gpu = kernels.backend().gpu())
    reporter_.say(device_memory_line(parts_.trainer->engine(), gpu->features()));
  else if (const std::string line = measured_memory_line(parts_.trainer->engine()); !line.empty())
    reporter_.say(line);
  reporter_.figures().measure(config_, kernels, world_.size(), options_.now_s);
  if (const std::string& why = reporter_.figures().rate_error(); !why.empty())
    reporter_.warn(
        fmt::format("the matrix rate could not be measured ({}). The log shows fractions of the "
                    "fastest step's rate instead.",
                    why));
}

void StepLoop::finish_step(const StepResult& r) {
  // In the metrics, a step that was started ahead begins when the one before it ended.
  const double began = std::max(r.began_s, finished_s_);
  finished_s_ = options_.now_s();
  if (verdict_ == StepVerdict::kBadNumber) stop_at_bad_number(r);
  if (r.step == parts_.first_step) {
    reporter_.say(
        fmt::format("first step done {:.1f} s after the start", since(options_.started_s)));
    if (reporter_.is_rank0()) measure();
  }
  after_step(r, finished_s_ - began);
  if (const std::string warning = parts_.judge->warning(r, parts_.saves->last()); !warning.empty())
    reporter_.say("warning   " + warning);
  if (verdict_ == StepVerdict::kDiverged) stop_diverged();
}

void StepLoop::validate(int64_t step) {
  reporter_.doing(step, "validating");
  const double began = options_.now_s();
  double last_line = began;
  const auto told = [&](const std::string& set, int64_t done, int64_t samples) {
    if (done == samples || since(last_line) < kValidationLineS) return;
    last_line = options_.now_s();
    reporter_.say(fmt::format("validation of {}: {} of {} samples after {}", set,
                              format_count(done), format_count(samples),
                              format_duration(since(began))));
  };
  for (const ValidationMetrics& m :
       parts_.validation->measure(*parts_.trainer, world_, step, told)) {
    reporter_.add(m);
    early_stop_.add({step, m.name, m.validation_loss});
  }
}

// Evaluates tasks on a checkpoint of this step, on the run's layout.
void StepLoop::evaluate(int64_t step) {
  save_checkpoint(step);
  parts_.saves->finish();
  if (parts_.saves->last() != step)
    return reporter_.warn(
        fmt::format("step {} is not evaluated, because it could not be saved", format_count(step)));
  // All ranks wait until rank 0 has published the checkpoint.
  world_.barrier();
  reporter_.doing(step, "evaluating tasks");
  for (const TaskMetrics& m : options_.tasks.run(parts_.saves->last_path(), config_, world_)) {
    reporter_.add(step, m);
  }
}

void StepLoop::save_checkpoint(int64_t step, bool prunes) {
  if (parts_.saves->is_saved(step)) return;
  if (step >= parts_.first_step) {
    // An update can leave finite weights that are useless, so the loss of the updated weights on
    // the last batch is tested.
    const double loss = parts_.trainer->loss_on_last_batch();
    const bool tries = parts_.judge->is_suspicious(loss);
    if (!std::isfinite(loss) || (tries && !parts_.trainer->can_continue()))
      stop_at_bad_number({.step = step, .loss = loss}, true);
    prunes = prunes && parts_.judge->may_prune(loss);
  }
  checkpoint::CheckpointHeader header;
  header.step = step;
  header.tokens = tokens_;
  parts_.judge->save(header.state);
  parts_.noise.save(header.state);
  save_updates(parts_.trainer->updates(), header.state);
  // The position in the data belongs to the step, whatever has been read ahead.
  header.state.set("data", parts_.input->position_after(step));
  header.config = tessera::to_tree(config_);
  header.model = tessera::to_tree(config_.model);
  header.version = options_.version;
  header.tokenizer = parts_.tokenizer_bytes;
  const auto set_ends = [&](const auto& data) {
    checkpoint::set_ends(data.stops(), header);
    if (const data::ChatTemplate* form = data.chat_template())
      checkpoint::set_chat_template(form->text(), header);
  };
  const TrainingRowReader& rows = parts_.input->rows();
  if (rows.instructions()) set_ends(*rows.instructions());
  if (rows.preferences()) set_ends(*rows.preferences());
  parts_.saves->start(std::move(header), parts_.trainer->state(), prunes);
}

void StepLoop::save_last(bool prunes) {
  save_last_step(
      *parts_.saves, outcome_.step, [&] { save_checkpoint(outcome_.step, prunes); }, world_,
      signals_, static_cast<double>(config_.checkpoint.retry_s), options_.now_s);
}

bool StepLoop::validates_at(int64_t step) const {
  return step == parts_.last_step || is_multiple(step, config_.metrics.validate_every_steps);
}

bool StepLoop::evaluates_at(int64_t step) const {
  return !config_.evaluation.tasks.empty() &&
         (step == parts_.last_step || is_multiple(step, config_.evaluation.every_steps));
}

Path StepLoop::last_checkpoint() const {
  const Path path = parts_.saves->last_path();
  return std::filesystem::exists(path) ? path : Path();
}

void StepLoop::run_steps() {
  catch_up();
  outcome_.stopped_early = early_stop_.is_over(world_);
  for (int64_t step = parts_.first_step; step <= parts_.last_step && !outcome_.stopped_early;
       ++step) {
    parts_.saves->between_steps();
    if (!begin_step(step)) break;
    one_step(step);
    if (step == parts_.last_step) break;
    if (validates_at(step)) {
      validate(step);
      outcome_.stopped_early = early_stop_.is_over(world_);
    }
    if (parts_.saves->due(step) || retry_save_) save_checkpoint(step);
    if (evaluates_at(step)) evaluate(step);
  }
  finish_steps(0);
}

// Saves before it validates, so that no later failure can lose the last step.
void StepLoop::finish() {
  reporter_.finish_progress();
  comm::on_all(world_, [this] { options_.owner.require(); });
  if (config_.checkpoint.save_at_end && (outcome_.step > 0 || parts_.last_step == 0)) save_last();
  if (!outcome_.interrupted && parts_.judge->ends_diverged()) stop_diverged();
  if (!outcome_.interrupted && parts_.first_step <= parts_.last_step) {
    // The last validation has stopped the run, maybe an earlier start of it.
    if (!outcome_.stopped_early) validate(outcome_.step);
    const bool is_new = !outcome_.stopped_early || outcome_.step >= parts_.first_step;
    if (is_new && !config_.evaluation.tasks.empty()) evaluate(outcome_.step);
  }
  comm::on_all(world_, [this] { parts_.dumps->finish(); });
  if (reporter_.record()) reporter_.record()->finish();
}

// Handles an error: saves the last completed step if the state belongs to that step and all ranks
// have the same error.
void StepLoop::end_with(const std::exception& error) {
  if (dynamic_cast<const NumericError*>(&error) != nullptr)
    throw;  // its thrower has saved the state
  // A SharedError was thrown on every rank, so all of them arrive here and can save together.
  const bool all_here =
      world_.size() == 1 || dynamic_cast<const comm::SharedError*>(&error) != nullptr;
  if (!all_here || outcome_.step < parts_.first_step || !config_.checkpoint.save_at_end) throw;
  // The state may be partly updated, and there is no started step whose end would complete it.
  if (!whole_ && parts_.trainer->under_way() == 0) throw;
  const bool was_last_save = parts_.saves->failure() == error.what();
  std::string saved, advice;
  try {
    finish_steps(0);
    const Path place = options_.owner.place_after_loss(world_);
    if (!place.empty()) {
      parts_.saves->finish();
      parts_.saves->move_to(place / "checkpoints");
      advice =
          " To continue from it, set checkpoint.from to it, checkpoint.load=all and "
          "checkpoint.resume=never.";
    }
    if (!place.empty() || !was_last_save) {
      save_last(place.empty());
      saved = fmt::format("Step {} is saved: {}.{}", format_count(outcome_.step),
                          last_checkpoint().string(), advice);
    }
  } catch (const std::exception& second) {
    saved = second.what();
  }
  if (saved.empty()) throw;
  const std::string text = fmt::format("{}\n  {}", error.what(), saved);
  if (world_.size() > 1) throw comm::SharedError(text);
  throw Error(text);
}

TrainOutcome StepLoop::go() {
  try {
    run_steps();
    finish();
  } catch (const std::exception& error) {
    end_with(error);
  }
  world_.barrier();  // no rank leaves before the checkpoint is visible
  outcome_.checkpoint = last_checkpoint().string();
  outcome_.signal = signals_.signal();
  if (outcome_.stopped_early) reporter_.say(early_stop_.reason());
  if (outcome_.interrupted)
    reporter_.say(fmt::format("stopped by {}; run the same command to resume",
                              outcome_.out_of_time ? "run.time_limit" : "a signal"));
  return outcome_;
}

TrainOutcome train(config::RunConfig config, const TrainOptions& options) {
  const StopSignals signals;  // from now on, a signal asks the run to save and stop
  const std::unique_ptr<comm::World> alone = options.world ? nullptr : comm::self_world();
  comm::World& world = options.world ? *options.world : *alone;
  RunReporter reporter(options, world);
  RunParts parts(std::move(config));
  RunStart start(parts, options, world, reporter);
  start.prepare();
  start.start();
  return StepLoop(parts, options, world, signals, reporter).go();
}

}  // namespace tessera::train
