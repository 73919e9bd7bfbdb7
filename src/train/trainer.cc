// One rank's training: compiles the run's programs, writes batches and scalars into the arena, runs
// steps and reads their results.
//
// All programs (training, validation, and one per stage of the batch-size warm-up) use one arena
// and share the state in it. Their batches and activations overlap, so running one program destroys
// the batch of another; `written_` records which step's batch is in the arena.
#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compile/check/check.h"
#include "compile/compile.h"
#include "data/validation_batch.h"
#include "ir/state.h"
#include "kernels/fill.h"
#include "model/hf_names.h"
#include "train/load_factors.h"
#include "train/load_state.h"
#include "train/run_programs.h"
#include "train/update_count.h"

namespace tessera {
namespace {

constexpr size_t kTrain = 0, kValidate = 1, kRamp = 2;  // a program for each batch of the ramp

template <class T>
std::span<T> whole(const TensorView& view) {
  return {view.as<T>(), static_cast<size_t>(view.elements())};
}

// `report` has sums over the loss tokens.
std::optional<RouterResult> router_of(const ModelConfig& m, const double* report) {
  int64_t layers = 0;
  for (int64_t i = 0; i < m.layers; ++i) layers += has_experts(m, i) ? 1 : 0;
  if (layers == 0) return std::nullopt;
  const double tokens = std::max(report[kLossTokens], 1.0);
  return RouterResult{report[kRouterLoss] / tokens,
                      report[kBusiestExpert] / tokens / static_cast<double>(layers)};
}

}  // namespace

Trainer::Trainer(const RunConfig& config, std::unique_ptr<PreparedKernels> kernels, int64_t limit,
                 World& world, std::function<double()> now_s)
    : config_(config), now_s_(now_s) {
  const Target target = kernels->target();
  CompileRequest request = compile_request(config, Purpose::kTrain);
  // Rank 0 proves the programs of all stages; the proof does not depend on the rank.
  if (world.rank() == 0) {
    const std::vector<std::string> wrong = prove(compile_stages(request, target), &target);
    CHECK(wrong.empty(), "the compiled step is wrong in {} ways; the first: {}", wrong.size(),
          wrong[0]);
  }
  // Each rank compiles only the program of its own pipeline stage.
  request.stage = coordinates_of(mesh_of(config.layout), world.rank())[AxisKind::kPipeline];
  CompileRequest validation = compile_request(config, Purpose::kValidate);
  validation.stage = request.stage;
  std::vector<Program> programs;
  programs.push_back(compile(request, target));
  require_memory(config, programs[0], limit, target);
  programs.push_back(compile(validation, target));
  // A warm-up step has fewer micro-batches, so it is a program of its own.
  for (const int64_t batch : config.batch.ramp) {
    request.microbatches = batch / (config.batch.micro * config.layout.data);
    programs.push_back(compile(request, target));
  }
  machine_ =
      std::make_unique<Machine>(std::move(programs), std::move(kernels),
                                MachineOptions{&world, config.compiler.poison, std::move(now_s)});
}

void Trainer::initialise() {
  machine_->initialise(static_cast<uint64_t>(config_.run.seed));
  updates_ = 0;
}

int64_t Trainer::data_rank() const {
  const Position& p = machine_->position();
  return group_index(p.mesh, data_ranks(), p.at);
}

void Trainer::load(CheckpointReader& checkpoint, Load what) {
  for (const StatePiece& piece : pieces(program(), machine_->position().at)) {
    const TensorView view = machine_->view(piece);
    const bool is_adapter =
        config_.lora.rank > 0 && piece.role == Role::kWeight && !program()[piece.weight].frozen;
    // A run that starts from weights begins with zero moments.
    if (what == Load::kWeights && piece.role != Role::kWeight)
      kernels::launch(kernels::Cpu(), {.threads = machine_->kernels().backend().threads()},
                      kernels::ClearArgs{flat(view)});
    // Adapters that the checkpoint does not have start with their initial values.
    else if (is_adapter && what == Load::kWeights && checkpoint.find(piece.name) == nullptr)
      machine_->initialise(piece, static_cast<uint64_t>(config_.run.seed));
    // Checkpoints of version 0.1 have one set of Adafactor's factors per packed weight.
    else if (!load_packed_factors(checkpoint, piece, program(), view))
      load_piece(checkpoint, piece, config_.model, view);
    if (!(is_adapter && what == Load::kWeights)) machine_->written(view);
  }
  machine_->round_weights();
  updates_ = what == Load::kAll ? updates_before(checkpoint.header()) : 0;
}

std::vector<StateTensor> Trainer::owned(const std::vector<StatePiece>& pieces, size_t of) const {
  std::vector<StateTensor> out;
  for (const StatePiece& piece : pieces) {
    if (!piece.owned) continue;
    const TensorView view = machine_->view(piece, of);
    out.push_back({piece.name, view.dtype, piece.shape, piece.begin, piece.end, view});
  }
  return out;
}

std::vector<StateTensor> Trainer::state() {
  return owned(pieces(program(), machine_->position().at), kTrain);
}

std::vector<StateTensor> Trainer::gradients() {
  return owned(gradient_pieces(machine_->program(last_), machine_->position().at), last_);
}

BatchView Trainer::batch_view(Executor& e, int64_t microbatch) {
  const auto view = [&](Role role) { return e.bound().view(e.bound().only(role), 0, microbatch); };
  BatchView b = {whole<int32_t>(view(Role::kTokens)), whole<int32_t>(view(Role::kLabels)),
                 whole<int32_t>(view(Role::kPositions)), whole<int64_t>(view(Role::kSamples))};
  if (e.bound().has(Role::kDocuments)) b.documents = whole<int32_t>(view(Role::kDocuments));
  if (e.bound().has(Role::kSource)) b.source = whole<int32_t>(view(Role::kSource));
  return b;
}

size_t Trainer::program_of(int64_t step) const {
  const BatchSection& b = config_.batch;
  const int64_t stage = b.ramp.empty() ? 0 : (step - 1) / b.ramp_steps;
  return stage < std::ssize(b.ramp) ? kRamp + static_cast<size_t>(stage) : kTrain;
}

void Trainer::write(StepInput& input) {
  written_ = input.step;
  Executor& e = machine_->executor(program_of(input.step));
  // A step that is under way may still read the batch from this memory.
  e.wait_until_read();
  input.began_s = now_s_ ? now_s_() : 0;
  BatchSource& batches = *input.batches;
  for (int64_t m = 0; m < batches.shape().microbatches(input.step - 1); ++m)
    batches.fill(input.step - 1, m, batch_view(e, m));
  // A copy, for loss_on_last_batch(): the arena's is overwritten by activations.
  const BatchView first = batch_view(e, 0);
  const auto keep = [](auto from, auto& to) { to.assign(from.begin(), from.end()); };
  keep(first.tokens, kept_.tokens);
  keep(first.labels, kept_.labels);
  keep(first.positions, kept_.positions);
  keep(first.documents, kept_.documents);
  keep(first.source, kept_.source);
  keep(first.samples, kept_.samples);
  input.data_s = now_s_ ? now_s_() - input.began_s : 0;
  auto* state = e.bound().view(e.bound().only(Role::kStep)).as<double>();
  state[kStepNumber] = static_cast<double>(input.step);
  state[kLearningRate] = input.learning_rate;
  state[kSeed] = static_cast<double>(config_.run.seed);
  state[kLossScale] = input.loss_scale;
  state[kSkipBefore] = 0;
  state[kUpdate] = static_cast<double>(input.update);
}

StepResult Trainer::result_of(const StepInput& input) {
  finished_ = input;
  Executor& e = machine_->executor(last_);
  const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
  // A skipped step is not an update: neither the optimizer's t nor the schedule advances.
  if (report[kSkip] == 0) ++updates_;
  return {.step = input.step,
          // The report has sums over the loss tokens of all ranks; the mean is formed here, once.
          .loss = report[kLossSum] / std::max(report[kLossTokens], 1.0),
          .grad_norm = report[kGradNorm],
          .tokens = report[kLossTokens],
          .finite = report[kSkip] == 0,
          .learning_rate = input.learning_rate,
          .began_s = input.began_s,
          .data_s = input.data_s,
          .router = router_of(config_.model, report)};
}

void Trainer::prepare_step(int64_t step, double learning_rate, BatchSource& batches,
                           double loss_scale) {
  next_ = {step, next_update(), learning_rate, loss_scale, &batches};
  write(next_);
}

StepResult Trainer::run_step(const std::function<void(const OpEvent&)>& observe) {
  last_ = program_of(next_.step);
  machine_->executor(last_).run(observe);
  return result_of(next_);
}

StepResult Trainer::step(int64_t step, double learning_rate, BatchSource& batches,
                         const std::function<void(const OpEvent&)>& observe, double loss_scale) {
  prepare_step(step, learning_rate, batches, loss_scale);
  return run_step(observe);
}

// Returns true if the step can be started ahead. A step of another program uses other streams,
// which do not wait for those of this one.
bool Trainer::can_start_step(int64_t step) const {
  const size_t program = program_of(step);
  return (started_.empty() || program == last_) && machine_->executor(program).can_run_ahead();
}

void Trainer::start_step() {
  last_ = program_of(next_.step);
  machine_->executor(last_).start();
  started_.push_back(next_);
}

StepResult Trainer::finish_step() {
  machine_->executor(last_).finish();
  const StepInput input = started_.front();
  started_.pop_front();
  return result_of(input);
}

const CommunicationTime& Trainer::communication() const {
  return machine_->executor(last_).communication();
}

void Trainer::repeat(const std::function<void(const OpEvent&)>& observe) {
  StepInput again = finished_;
  const bool overwritten = written_ != again.step;
  while (!started_.empty()) finish_step();
  if (overwritten) write(again);
  machine_->executor(program_of(again.step)).run(observe);
}

double Trainer::loss_on_last_batch() {
  written_ = 0;  // the first micro-batch is written again if a step is repeated
  // The validation program has no backward pass and needs no update, so it leaves the state as it
  // is.
  Executor& e = machine_->executor(kValidate);
  const BatchView to = batch_view(e, 0);
  const auto copy = [](const auto& source, auto target) {
    CHECK(source.size() == target.size(), "batches of {} and {}", source.size(), target.size());
    std::copy(source.begin(), source.end(), target.begin());
  };
  copy(kept_.tokens, to.tokens);
  copy(kept_.labels, to.labels);
  copy(kept_.positions, to.positions);
  copy(kept_.samples, to.samples);
  copy(kept_.documents, to.documents);
  copy(kept_.source, to.source);
  e.run();
  const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
  return report[kLossSum] / std::max(report[kLossTokens], 1.0);
}

bool Trainer::can_continue() {
  StepInput again = finished_;
  CHECK(started_.empty(), "{} steps are under way", started_.size());
  write(again);
  Executor& e = machine_->executor(program_of(again.step));
  e.bound().view(e.bound().only(Role::kStep)).as<double>()[kSkipBefore] = 1;  // nothing is updated
  e.run();
  const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
  // Both: a finite loss can have gradients that overflow.
  return std::isfinite(report[kLossSum]) && std::isfinite(report[kSquares]);
}

ValidationResult Trainer::validate(const ValidationData& data, int64_t sequences,
                                   const std::function<void(int64_t)>& on_progress) {
  written_ = 0;  // its rows replace those of a step
  Executor& e = machine_->executor(kValidate);
  const BatchView view = batch_view(e, 0);
  ValidationResult total;
  // All data-parallel ranks together handle `together` consecutive samples per run.
  const int64_t micro = config_.batch.micro, together = micro * config_.layout.data;
  for (int64_t first = 0; first < sequences; first += together) {
    // A rank that cannot read its rows continues with empty ones, because the others wait for it in
    // the collectives of every run.
    try {
      fill_validation_batch(data, first + data_rank() * micro, sequences, view);
    } catch (const std::exception& error) {
      if (total.error.empty()) total.error = error.what();
      fill_validation_batch(data, first, 0, view);
    }
    e.run();
    const auto* report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
    total.loss_sum += report[kLossSum];
    total.tokens += report[kLossTokens];
    on_progress(std::min(first + together, sequences));
  }
  return total;
}

double Trainer::loss_scale() {
  Executor& e = machine_->executor(last_);
  return e.bound().view(e.bound().only(Role::kStep)).as<double>()[kLossScale];
}

double Trainer::loss_tokens() {
  Executor& e = machine_->executor(kTrain);
  return e.bound().view(e.bound().only(Role::kReport)).as<double>()[kLossTokens];
}

}  // namespace tessera
