// One rank's training: compiles the run's programs, writes batches and scalars into the arena, runs
// steps and reads their results.
//
// All programs (training, validation, and one per stage of the batch-size warm-up) use one arena
// and share the state in it. Their batches and activations overlap, so running one program destroys
// the batch of another (BatchMemory).
#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/real.h"
#include "checkpoint/merge.h"
#include "checkpoint/peft.h"
#include "compile/check/check.h"
#include "compile/compile.h"
#include "data/batches.h"
#include "ir/state.h"
#include "model/hf_names.h"
#include "model/weight_names.h"
#include "train/answer_sums.h"
#include "train/coded_moments.h"
#include "train/initial_adapters.h"
#include "train/load_state.h"
#include "train/pair_metrics.h"
#include "train/quantized_weights.h"
#include "train/run_programs.h"

namespace tessera::train {
namespace {

// Indices of the programs; kRamp is the first one of the batch-size warm-up. The program of one
// micro-batch for the gradient-noise scale is after those; the reference model's program, if it is
// a separate one, is last (train/answer_sums.h).
constexpr size_t kTrain = 0, kValidate = 1, kRamp = 2;
static_assert(kAnswersProgram == kValidate);

// Returns the program of a step (from 1). The first steps may have the batch sizes of the warm-up.
size_t program_of(const config::BatchSection& b, int64_t step) {
  const int64_t stage = b.warmup_sizes.empty() ? 0 : (step - 1) / b.warmup_steps_per_size;
  return stage < std::ssize(b.warmup_sizes) ? kRamp + stage : kTrain;
}

// Returns the means of the sums over loss tokens in `report`; nothing if no layer has experts, or
// if the report counts pairs instead of tokens.
std::optional<RouterResult> router_of(const config::RunConfig& config, const double* report) {
  const model::ModelConfig& m = config.model;
  int64_t layers = 0;
  for (int64_t i = 0; i < m.layers; ++i) layers += model::has_experts(m, i) ? 1 : 0;
  if (model::has_experts(m, m.layers - 1)) layers += m.mtp_depth;
  if (layers == 0 || config.objective.has_pairs()) return std::nullopt;
  const double tokens = std::max(report[kLossTokens], 1.0);
  RouterResult r = {report[kRouterLoss] / tokens, ratio(report[kBusiestExpert] / tokens, layers),
                    ratio(report[kLoadEntropy] / tokens, layers)};
  if (m.router.capacity_factor > 0) r.dropped = ratio(report[kDroppedPairs] / tokens, layers);
  return r;
}

// Returns the mean z-loss per loss token; nothing if the run has none.
std::optional<double> z_loss_of(const config::LossSection& loss, const double* report) {
  if (loss.z_loss == 0) return std::nullopt;
  return report[kZLoss] / std::max(report[kLossTokens], 1.0);
}

// Returns the mean loss of multi-token prediction per token that it predicts, at all depths;
// nothing if the model has none.
std::optional<double> mtp_loss_of(const model::ModelConfig& m, const double* report) {
  if (m.mtp_depth == 0) return std::nullopt;
  return report[kMtpLoss] / std::max(report[kMtpTokens], 1.0);
}

// Returns views of the pieces of a program that this rank owns.
std::vector<checkpoint::StateTensor> owned(const runtime::Engine& engine,
                                           const std::vector<StateShard>& shards, size_t program) {
  std::vector<checkpoint::StateTensor> out;
  for (const StateShard& shard : shards) {
    if (!shard.owned) continue;
    if (shard.scales) {
      out.push_back(decoded_moments(engine, shard));
      continue;
    }
    const TensorView view = engine.view(shard, program);
    out.push_back({shard.name, view.dtype, shard.shape, shard.begin, shard.end, view});
  }
  return out;
}

// Writes the numbers of a step (ir/state.h) for a program.
void write_numbers(runtime::Executor& e, const auto& input, const config::RunConfig& config) {
  auto* state = e.bound().view(e.bound().only(Role::kStep)).as<double>();
  state[kStepNumber] = static_cast<double>(input.step);
  state[kLearningRate] = input.learning_rate;
  state[kSeed] = static_cast<double>(config.run.seed);
  state[kLossScale] = input.loss_scale;
  state[kPreviousSkipped] = 0;
  state[kUpdate] = static_cast<double>(input.update);
  state[kAverageShare] = config::average_share(config.schedule, input.update);
}

// Fills `view` with the rows numbered rows[first], rows[first + 1], …, where rows are numbered
// through all micro-batches of this rank. If `rows` ends earlier, the rest of the view gets a row
// without labels, which has no loss.
void write_rows(std::span<const StoredBatch> batches, std::span<const int64_t> rows, int64_t first,
                const data::BatchView& view) {
  const int64_t micro = std::ssize(view.samples);
  const size_t length = view.labels.size() / micro;
  for (int64_t b = 0; b < micro; ++b) {
    const bool missing = first + b >= std::ssize(rows);
    const int64_t row = missing ? 0 : rows[first + b];
    copy_row(batches[row / micro], row % micro, view, b);
    if (missing) std::ranges::fill(view.labels.subspan(b * length, length), data::kIgnoredLabel);
  }
}

int64_t data_rank_of(const runtime::Engine& engine) {
  const runtime::RankPosition& p = engine.position();
  return group_index(p.mesh, data_ranks(), p.at);
}

using OnProgress = std::function<void(int64_t)>;

ValidationResult validate_tokens(const config::RunConfig& config, runtime::Engine& engine,
                                 BatchMemory& batch, const data::ValidationData& data,
                                 int64_t sequences, const OnProgress& on_progress) {
  runtime::Executor& e = engine.executor(kValidate);
  const data::BatchView view = batch.view(e, 0);
  ValidationResult total;
  // All data-parallel ranks together handle `together` consecutive samples per run.
  const int64_t micro = config.batch.micro, together = micro * config.layout.data;
  for (int64_t first = 0; first < sequences; first += together) {
    // A rank that cannot read its rows continues with empty ones, because the other ranks wait for
    // it in collectives.
    try {
      data::fill_validation_batch(data, first + data_rank_of(engine) * micro, sequences, view);
    } catch (const std::exception& error) {
      if (total.error.empty()) total.error = error.what();
      data::fill_validation_batch(data, first, 0, view);
    }
    e.run();
    const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
    total.loss_sum += report[kLossSum];
    total.tokens += report[kLossTokens];
    on_progress(std::min(first + together, sequences));
  }
  return total;
}

// The loss is computed from the sums of all pairs, so it does not depend on how they are divided.
ValidationResult validate_pairs(const config::RunConfig& config, runtime::Engine& engine,
                                BatchMemory& batch, comm::World* world,
                                const data::PreferenceData& data, int64_t pairs,
                                const OnProgress& on_progress) {
  AnswerPass pass(engine, kAnswersProgram, batch, data, world);
  const std::vector<double> sums = sums_of_pairs(pass, pairs, on_progress);
  const PairsResult r =
      result_of_pairs(config.objective, losses_of_pairs(config.objective, data, sums));
  const auto count = static_cast<double>(r.pairs);
  return {.loss_sum = r.loss * count, .tokens = count, .error = "", .preference = r.figures};
}

}  // namespace

Trainer::Trainer(const config::RunConfig& config, std::unique_ptr<runtime::PreparedKernels> kernels,
                 int64_t limit, comm::World& world, std::function<double()> now_s)
    : config_(config), world_(&world), now_s_(now_s) {
  const Target target = kernels->target();
  compile::CompileRequest request = config::compile_request(config, compile::ProgramKind::kTrain);
  // Rank 0 verifies the programs of all stages; the result does not depend on the rank.
  if (world.rank() == 0) {
    const std::vector<std::string> wrong =
        compile::prove(compile::compile_stages(request, target), &target);
    CHECK(wrong.empty(), "the compiled step is wrong in {} ways; the first: {}", wrong.size(),
          wrong[0]);
  }
  // Each rank compiles only the program of its own pipeline stage.
  request.stage =
      coordinates_of(compile::mesh_of(config.layout), world.rank())[AxisKind::kPipeline];
  compile::CompileRequest validation =
      config::compile_request(config, compile::ProgramKind::kValidate);
  validation.stage = request.stage;
  validation.keep_answer_sums = config.objective.has_pairs();
  std::vector<Program> programs;
  programs.push_back(compile::compile(request, target));
  require_memory(config, programs[0], limit, target);
  programs.push_back(compile::compile(validation, target));
  // A step with fewer micro-batches is a program of its own.
  for (const compile::CompileRequest& smaller : compile::smaller_steps(request)) {
    programs.push_back(compile::compile(smaller, target));
    const bool warms_up = programs.size() - kRamp <= config.batch.warmup_sizes.size();
    require_memory(config, programs.back(), limit, target,
                   warms_up ? "a step of batch.warmup_sizes"
                            : "the measurement of metrics.noise_scale_every_steps");
  }
  if (config.objective.reference == config::ReferenceSource::kAdaptersOff) {
    compile::CompileRequest reference = validation;
    reference.adapters.alpha = 0;  // adapters stay in the state, but add 0
    programs.push_back(compile::compile(reference, target));
  }
  engine_ = std::make_unique<runtime::Engine>(
      std::move(programs), std::move(kernels),
      runtime::EngineOptions{&world, config.compiler.poison, std::move(now_s)});
}

void Trainer::initialize() {
  engine_->initialize(config_.run.seed);
  initialize_quantized(*engine_, config_.run.seed);
  initialize_magnitudes(*engine_, config_.run.seed);
  updates_ = 0;
}

int64_t Trainer::data_rank() const { return data_rank_of(*engine_); }

void Trainer::load(checkpoint::CheckpointReader& checkpoint, config::Load what) {
  const bool fresh = what == config::Load::kWeights;
  if (config_.lora.rank > 0) checkpoint::require_adapters_of_parts(checkpoint, config_.model);
  const std::optional<checkpoint::StoredAdapters> peft =
      fresh ? adapters_of_run(config_, checkpoint) : std::nullopt;
  Quantizer quantizer(program(), finite_weights_of(checkpoint), engine_->kernels().threads());
  LoadedMoments moments(*engine_);
  for (const StateShard& of : local_state(program(), engine_->position().at)) {
    // State that starts as its weight does so in a run that starts from weights, and where the
    // checkpoint does not have it, because optimizer.ema was set later.
    const bool begins = starts_as_weight(of.role) && (fresh || checkpoint.find(of.name) == nullptr);
    const StateShard shard = begins ? weight_piece(of) : of;
    // A run that starts from weights begins with zero moments.
    if (fresh && shard.role != Role::kWeight) {
      engine_->clear(shard);
      continue;
    }
    if (shard.scales) {
      load_shard(checkpoint, shard, config_.model, moments.view(shard));
      continue;
    }
    const TensorView view = engine_->view(shard);
    if (is_quantized(program(), shard) && checkpoint.find(shard.name) == nullptr) {
      quantizer.fill(shard, view);
      engine_->written(view);
      continue;
    }
    const bool is_adapter =
        config_.lora.rank > 0 && shard.role == Role::kWeight && !program()[shard.weight].frozen;
    const bool is_score = shard.name == model::kScoreHead;
    // Adapters that the checkpoint does not have start with the weights of a PEFT folder, or with
    // their initial values. A score head that it does not have starts with its initial values.
    if ((is_adapter || is_score) && fresh && checkpoint.find(shard.name) == nullptr) {
      const bool from_peft = peft && !is_score;
      if (!from_peft && !is_magnitude(shard)) {
        engine_->initialize(of, config_.run.seed);
        continue;
      }
      if (from_peft)
        peft->read(shard.name, shard.begin, shard.end, view);
      else
        fill_magnitudes(program(), shard, view, quantizer.rows());
      engine_->written(view);
      continue;
    }
    // Checkpoints of version 0.1 have one set of Adafactor's factors per packed weight.
    if (!load_packed_factors(checkpoint, shard, program(), view))
      load_shard(checkpoint, shard, config_.model, view);
    engine_->written(view);
  }
  moments.write();
  engine_->round_weights();
  updates_ = what == config::Load::kAll ? updates_before(checkpoint.header()) : 0;
}

std::vector<checkpoint::StateTensor> Trainer::state() {
  return owned(*engine_, local_state(program(), engine_->position().at), kTrain);
}

std::vector<checkpoint::StateTensor> Trainer::gradients() {
  return owned(*engine_, local_gradients(engine_->program(last_), engine_->position().at), last_);
}

void Trainer::write(StepInput& input) {
  runtime::Executor& e = engine_->executor(program_of(config_.batch, input.step));
  // A step that was started may still read its batch from this memory.
  e.wait_until_read();
  input.began_s = now_s_ ? now_s_() : 0;
  batch_.write(e, *input.batches, input.step);
  input.data_s = now_s_ ? now_s_() - input.began_s : 0;
  write_numbers(e, input, config_);
}

StepResult Trainer::result_of(const StepInput& input) {
  finished_ = input;
  runtime::Executor& e = engine_->executor(last_);
  const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
  // A skipped step is not an update: neither the optimizer's t nor the schedule advances.
  if (report[kSkip] == 0) ++updates_;
  return {.step = input.step,
          // The report has sums over the loss tokens of all ranks.
          .loss = report[kLossSum] / std::max(report[kLossTokens], 1.0),
          .grad_norm = report[kGradNorm],
          .tokens = report[kLossTokens],
          .finite = report[kSkip] == 0,
          .learning_rate = input.learning_rate,
          .began_s = input.began_s,
          .data_s = input.data_s,
          .router = router_of(config_, report),
          .mtp_loss = mtp_loss_of(config_.model, report),
          .preference = config_.objective.has_pairs()
                            ? std::optional(preference_of(config_.objective, report))
                            : std::nullopt,
          .z_loss = z_loss_of(config_.loss, report),
          .communication = &e.communication()};
}

void Trainer::prepare_step(int64_t step, double learning_rate, data::BatchSource& batches,
                           double loss_scale) {
  next_ = {step, next_update(), learning_rate, loss_scale, &batches};
  write(next_);
}

StepResult Trainer::run_step(const std::function<void(const runtime::OpEvent&)>& observe) {
  last_ = program_of(config_.batch, next_.step);
  estimate_kl(config_, *engine_, last_, world_, batch_);
  engine_->executor(last_).run(observe);
  return result_of(next_);
}

StepResult Trainer::step(int64_t step, double learning_rate, data::BatchSource& batches,
                         const std::function<void(const runtime::OpEvent&)>& observe,
                         double loss_scale) {
  prepare_step(step, learning_rate, batches, loss_scale);
  return run_step(observe);
}

// Returns true if the step can be started ahead. A step of another program uses other streams,
// which do not wait for the streams of this one.
bool Trainer::can_start_step(int64_t step) const {
  const size_t program = program_of(config_.batch, step);
  // estimate_kl() needs the weights that the step before leaves.
  const bool needs_weights = config_.objective.kind == config::ObjectiveKind::kKto;
  return !needs_weights && (started_.empty() || program == last_) &&
         engine_->executor(program).can_run_ahead();
}

void Trainer::start_step() {
  last_ = program_of(config_.batch, next_.step);
  engine_->executor(last_).start();
  started_.push_back(next_);
}

StepResult Trainer::finish_step() {
  engine_->executor(last_).finish();
  const StepInput input = started_.front();
  started_.pop_front();
  return result_of(input);
}

void Trainer::repeat(const std::function<void(const runtime::OpEvent&)>& observe) {
  StepInput again = finished_;
  const bool overwritten = batch_.step() != again.step;
  while (!started_.empty()) finish_step();
  if (overwritten) {
    write(again);
    estimate_kl(config_, *engine_, program_of(config_.batch, again.step), world_, batch_);
  }
  engine_->executor(program_of(config_.batch, again.step)).run(observe);
}

double Trainer::loss_on_last_batch() {
  // The validation program has no backward pass and no update, so the state is unchanged.
  runtime::Executor& e = engine_->executor(kValidate);
  batch_.restore(e);
  e.run();
  const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
  return report[kLossSum] / std::max(report[kLossTokens], 1.0);
}

bool Trainer::can_continue() {
  StepInput again = finished_;
  CHECK(started_.empty(), "{} steps have not finished", started_.size());
  write(again);
  estimate_kl(config_, *engine_, program_of(config_.batch, again.step), world_, batch_);
  runtime::Executor& e = engine_->executor(program_of(config_.batch, again.step));
  e.bound().view(e.bound().only(Role::kStep)).as<double>()[kPreviousSkipped] =
      1;  // disables the update
  e.run();
  const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
  // Both are tested, since a finite loss can have gradients that overflow.
  return std::isfinite(report[kLossSum]) && std::isfinite(report[kSquareSum]);
}

ValidationResult Trainer::validate(ValidationRows rows, int64_t samples,
                                   const std::function<void(int64_t)>& on_progress) {
  if (engine_->keeps_iterates()) engine_->round_weights(runtime::WeightsRead::kMaster);
  const ValidationResult r =
      rows.pairs != nullptr
          ? validate_pairs(config_, *engine_, batch_, world_, *rows.pairs, samples, on_progress)
          : validate_tokens(config_, *engine_, batch_, *rows.data, samples, on_progress);
  if (engine_->keeps_iterates()) engine_->round_weights();
  return r;
}

// Collects the rows of each group, so that each run of the validation program has samples of one
// group only, and its report is the loss of that group. All ranks run it the same number of times,
// because they take part in its collectives together.
std::vector<ValidationResult> Trainer::losses_by_group(std::span<const int> groups, int count) {
  CHECK(started_.empty(), "{} steps have not finished", started_.size());
  const double began = now_s_ ? now_s_() : 0;
  runtime::Executor& step = engine_->executor(program_of(config_.batch, next_.step));
  runtime::Executor& e = engine_->executor(kValidate);
  const int64_t micro = config_.batch.micro, ranks = config_.layout.data;
  const int64_t microbatches = std::ssize(groups) / (micro * ranks);
  const std::vector<StoredBatch> batches = batch_.stored(step, microbatches);
  const data::BatchView view = batch_.view(e, 0);
  std::vector<ValidationResult> out(count);
  for (int g = 0; g < count; ++g) {
    std::vector<std::vector<int64_t>> rows(ranks);  // per data-parallel rank
    for (int64_t s = 0; s < std::ssize(groups); ++s)
      if (groups[s] == g)
        rows[s / micro % ranks].push_back(s / (micro * ranks) * micro + s % micro);
    int64_t most = 0;
    for (const auto& own : rows) most = std::max(most, std::ssize(own));
    for (int64_t first = 0; first < most; first += micro) {
      write_rows(batches, rows[data_rank()], first, view);
      e.run();
      const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
      out[g].loss_sum += report[kLossSum];
      out[g].tokens += report[kLossTokens];
    }
  }
  batch_.rewrite(step, batches, next_.step);
  if (now_s_) next_.began_s += now_s_() - began;  // not part of the step's time
  return out;
}

// Runs a whole step of one micro-batch, whose update is disabled.
GradientOfBatch Trainer::gradient_of_part() {
  CHECK(started_.empty(), "{} steps have not finished", started_.size());
  const double began = now_s_ ? now_s_() : 0;
  runtime::Executor& step = engine_->executor(program_of(config_.batch, next_.step));
  runtime::Executor& part = engine_->executor(kRamp + config_.batch.warmup_sizes.size());
  const int64_t together = config_.batch.micro * config_.layout.data;
  const std::vector<StoredBatch> batches =
      batch_.stored(step, next_.batches->shape().microbatches(next_.step - 1));
  // Sets z of kto, which the step sets again, from the references that `batches` still has.
  estimate_kl(config_, *engine_, program_of(config_.batch, next_.step), world_, batch_);
  const std::vector<StoredBatch> first = batch_.stored(step, 1);
  batch_.rewrite(part, first, next_.step);
  write_numbers(part, next_, config_);
  part.bound().view(part.bound().only(Role::kStep)).as<double>()[kPreviousSkipped] = 1;
  part.run();
  const auto* report = part.bound().view(part.bound().only(Role::kReport)).as<double>();
  const double tokens = std::max(report[kLossTokens], 1.0);
  const double norm = std::sqrt(report[kSquareSum]) / (tokens * next_.loss_scale);
  batch_.rewrite(step, batches, next_.step);
  write_numbers(step, next_, config_);
  if (now_s_) next_.began_s += now_s_() - began;  // not part of the step's time
  return {together, norm};
}

double Trainer::gradient_factor() {
  const runtime::BoundProgram& last = engine_->executor(last_).bound();
  return last.view(last.only(Role::kReport)).as<double>()[kLossTokens] *
         last.view(last.only(Role::kStep)).as<double>()[kLossScale];
}

namespace {

constexpr const char* kUpdates = "updates";

}  // namespace

compile::MemoryPlan step_memory(const config::RunConfig& config, const runtime::Engine& engine) {
  compile::MemoryPlan most = compile::memory_plan(engine.program());
  const auto request = config::compile_request(config, compile::ProgramKind::kTrain);
  for (size_t i = 0; i < compile::smaller_steps(request).size(); ++i)
    most = compile::larger_of(most, compile::memory_plan(engine.program(kRamp + i)));
  return most;
}

int64_t updates_before(const checkpoint::CheckpointHeader& header) {
  const auto stored = [&](const char* name) -> const int64_t* {
    const Tree* found = header.state.as_members() ? header.state.find(name) : nullptr;
    return found ? std::get_if<int64_t>(&found->value) : nullptr;
  };
  if (const int64_t* updates = stored(kUpdates))
    return std::clamp<int64_t>(*updates, 0, header.step);
  const int64_t* skipped = stored("skipped");
  return header.step - (skipped ? std::clamp<int64_t>(*skipped, 0, header.step) : 0);
}

void save_updates(int64_t updates, Tree& state) { state.set(kUpdates, Tree(updates)); }

}  // namespace tessera::train
