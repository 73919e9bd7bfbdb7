// The start of a run: opens the inputs, compiles, and loads or initializes the weights.
//
// The order is by cost: what can fail cheaply comes first, so a missing dataset or an impossible
// layout is reported before gigabytes are allocated, and a lack of memory before the first step.
// All ranks agree on the checkpoint to start from (agreed_start), because a rank that started from
// another one would compute something else in each collective.
#include "train/run_start.h"
#include "train/early_stop.h"

#include <fmt/format.h>
#include <array>
#include <set>
#include <span>
#include <string>

#include "base/config.h"
#include "base/count.h"
#include "base/error.h"
#include "checkpoint/index.h"
#include "config/run_config.h"
#include "data/dataset_about.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"
#include "model/weight_names.h"
#include "train/load_run.h"
#include "train/references.h"
#include "train/run_data.h"
#include "train/run_folder.h"
#include "train/run_products.h"
#include "train/run_programs.h"
#include "train/trained_part.h"

namespace tessera::train {
namespace {

// Throws Error, before training, with the first token id beyond the model's vocabulary. A dataset
// of data.train, data.stages or data.validation is read only if its PREFIX.json has a larger
// vocabulary than the model, and instructions only if their tokenizer has. A dataset without
// PREFIX.json is checked row by row when it is read.
void require_vocabulary(const config::RunConfig& config, const data::Tokenizer& tokenizer,
                        const TrainingRowReader& rows, std::span<const ValidationSet> validation) {
  const int64_t vocabulary = config.model.vocabulary;
  if (rows.preferences()) {
    if (tokenizer.vocabulary_size() <= vocabulary) return;
    rows.preferences()->require_vocabulary(vocabulary);
    for (const ValidationSet& set : validation) set.pairs->require_vocabulary(vocabulary);
    return;
  }
  if (rows.instructions()) {
    if (tokenizer.vocabulary_size() <= vocabulary) return;
    data::require_vocabulary(*rows.instructions(), vocabulary);
    for (const ValidationSet& set : validation)
      if (const data::InstructionData* data = set.data->instructions())
        data::require_vocabulary(*data, vocabulary);
    return;
  }
  std::set<std::string> prefixes;
  for (int i = 0; i < rows.datasets()->datasets(); ++i) prefixes.insert(rows.datasets()->prefix(i));
  for (const config::ValidationSource& source : config.data.validation)
    prefixes.insert(source.prefix);
  for (const std::string& prefix : prefixes) {
    const data::IndexedDataset data(prefix);
    const auto about = data::read_about(data);
    if (about && about->vocabulary > vocabulary) data::require_vocabulary(data, vocabulary);
  }
}

// Returns a line such as
// "layout    4 ranks = data 2 × tensor 2 · 1 thread each · ZeRO 1 · recompute none".
std::string layout_line(const config::RunConfig& c) {
  const compile::Layout& l = c.layout;
  std::string axes;
  const std::pair<const char*, int64_t> sizes[] = {
      {"data", l.data}, {"context", l.context}, {"tensor", l.tensor}, {"pipeline", l.pipeline}};
  for (const auto& [name, n] : sizes)
    if (n > 1) axes += fmt::format("{}{} {}", axes.empty() ? " = " : " × ", name, n);
  const int64_t ranks = l.data * l.context * l.tensor * l.pipeline;
  std::string line =
      fmt::format("layout    {} rank{}{} · {} thread{} each", ranks, ranks > 1 ? "s" : "", axes,
                  c.run.threads, c.run.threads > 1 ? "s" : "");
  if (l.expert > 1) line += fmt::format(" · experts over {}", l.expert);
  if (l.data * l.context > 1) line += fmt::format(" · ZeRO {}", l.zero);
  if (l.pipeline > 1) line += fmt::format(" · {}", name_of_entry(l.pipeline_schedule));
  if (l.offload != "none") line += fmt::format(" · offload {}", l.offload);
  return line + fmt::format(" · recompute {}", l.recompute);
}

}  // namespace

const data::Tokenizer& RunStart::tokenizer() {
  if (!tokenizer_) tokenizer_ = data::load_tokenizer(tokenizer_of_run(config_));
  return *tokenizer_;
}

// Runs before memory is allocated, so that unusable data or a missing checkpoint is reported at
// once.
void RunStart::open_inputs() {
  reporter_.doing(0, "opening the data");
  start_ = agreed_start(world_, [this] {
    StartingPoint start = find_start(config_, options_.from_step);
    require_suitable(config_, start);
    return start;
  });
  parts_.input = std::make_unique<TrainingInput>(config_, tokenizer());
  parts_.validation.emplace(config_, tokenizer(), world_);
  std::vector<std::string> datasets;
  for (const ValidationSet& set : parts_.validation->sets()) datasets.push_back(set.name);
  resolve_early_stop(config_.schedule.stop, datasets, config_.metrics.validate_every_steps);
  if (reporter_.is_rank0())
    require_vocabulary(config_, tokenizer(), parts_.input->rows(), parts_.validation->sets());
}

void RunStart::prepare() {
  const RunDevice device = resolve_device(config_, world_);
  if (config_.run.threads == 0) config_.run.threads = threads_for(device.cpu, world_);
  resolve_sizes(config_);
  parts_.judge.emplace(config_);
  if (reporter_.is_rank0()) make_run_directory(directory());
  world_.barrier();
  if (reporter_.is_rank0()) reporter_.open_log(directory() / "log.txt");
  if (const std::string why = threads_warning(device.cpu, world_, config_.run.threads);
      !why.empty() && reporter_.is_rank0() && !device.gpu)
    reporter_.warn(why);
  parts_.dumps.emplace(config_, world_);
  open_inputs();
  reporter_.doing(0, "compiling");
  auto kernels = device.kernels(static_cast<int>(config_.run.threads));
  share_products(*kernels, config_, world_, options_.now_s,
                 [this](const std::string& line) { say(line); });
  compile(device, std::move(kernels));
}

// Compiles the programs, allocates their memory, and reports both.
void RunStart::compile(const RunDevice& device, std::unique_ptr<runtime::PreparedKernels> kernels) {
  const double began = options_.now_s();
  parts_.trainer = std::make_unique<Trainer>(config_, std::move(kernels), device.memory_limit(),
                                             world_, options_.now_s);
  const double compiled = since(began);
  runtime::Engine& engine = parts_.trainer->engine();
  engine.hooks().captured = [this](const std::string& line) { say(line); };
  report_model();
  if (device.gpu)
    for (const std::string& line : device_lines(engine)) say(line);
  say(layout_line(config_));
  const compile::MemoryPlan m = step_memory(config_, engine);
  for (const std::string& line : memory_lines(m, engine, device)) say(line);
  if (!config_.evaluation.tasks.empty())
    require_task_memory(options_.tasks.bytes(config_), device.need(m), device.memory_limit());
  require_host_memory(world_, device.host_need(m), device.cpu.memory_bytes);
  // Touching every page now reveals a lack of memory before the first step, and places pages on the
  // NUMA nodes of the threads that use them.
  const double touching = options_.now_s();
  engine.touch();
  say(fmt::format(
      "check     {} rank{}, {} calls each: collectives match, data flow verified, no deadlock",
      world_.size(), world_.size() > 1 ? "s" : "", parts_.trainer->program().schedule.size()));
  say(fmt::format("startup   config {:.2f} s, compile and check {:.2f}, touch memory {:.2f}",
                  began - options_.started_s, compiled, since(touching)));
}

// Reports the model, and the part of it that is trained.
void RunStart::report_model() {
  // The numbers of all and of trained parameters, and of those of the optimizer itself and of each
  // of its groups.
  std::vector<double> parameters(3 + config_.optimizer.groups.size());
  for (const checkpoint::StateTensor& t : parts_.trainer->state()) {
    if (t.name.find('|') != std::string::npos) continue;
    const auto count = static_cast<double>(model::parameters_of(t.name, t.data.elements()));
    parameters[0] += count;
    if (!trains(config_, t.name)) continue;
    parameters[1] += count;
    parameters[2 + optimizer_number(config_, t.name)] += count;
  }
  world_.all_reduce(parameters, comm::Reduction::kSum);
  say(fmt::format("tessera {} · run {} · {} {:.1f} M parameters · {} · {} tokens/step",
                  options_.version, config_.run.name, name_of_entry(config_.model.family),
                  parameters[0] / 1e6, name_of_entry(config_.precision),
                  format_count(config_.batch.global * config::row_tokens(config_))));
  if (parameters[1] < parameters[0]) say(trained_line(config_, parameters[1], parameters[0]));
  if (!config_.optimizer.groups.empty())
    say(optimizer_line(config_, std::span(parameters).subspan(2)));
}

// Loads the newest checkpoint that is intact on all ranks. If all of its state is loaded, the run
// continues at the next step; if only its weights are, the run begins at step 1.
LoadedStart RunStart::resume() {
  reporter_.doing(0, "reading the checkpoint");
  const double began = options_.now_s();
  LoadedStart loaded = load_newest_intact(
      start_, world_,
      [&](const Path& p) {
        return load_checkpoint(p, start_, config_, *parts_.trainer,
                               [this](auto& line) { say(line); });
      },
      [this](const std::string& line) { reporter_.warn(line); });
  const checkpoint::CheckpointHeader& header = loaded.header;
  const bool all = start_.load == config::Load::kAll;
  if (!header.tokenizer.empty())
    require_same_tokenizer(config_, loaded.checkpoint, start_.resumes, tokenizer());
  parts_.saves->begin_from(header, all && is_own(directory(), loaded.checkpoint));
  if (all) {
    parts_.first_step = header.step + 1;
    parts_.tokens = header.tokens;
    position_ = position_of(header, loaded.checkpoint.string(), tokenizer());
    parts_.judge->restore(header.state);
    parts_.noise.restore(header.state);
  }
  say(fmt::format("{:<9} {} {} in {:.2f} s", start_.resumes ? "resume" : "weights",
                  all ? fmt::format("step {} from", format_count(header.step)) : "from",
                  loaded.checkpoint.string(), since(began)));
  return loaded;
}

// Connects the saves with the rest of the run: metrics reach the disk before a checkpoint becomes
// visible, so that no checkpoint is newer than its metrics.
void RunStart::make_saves() {
  CheckpointSchedulerOptions o;
  o.folder = directory() / "checkpoints";
  o.rules = config_.checkpoint;
  o.tokens_after = [this](int64_t steps) { return parts_.input->tokens_after(steps); };
  o.world = &world_;
  o.now_s = options_.now_s;
  o.before_visible = [this] {
    options_.owner.require();
    if (MetricsRecorder* const record = reporter_.record()) record->sync();
  };
  o.say = [this](const std::string& line) { say(line); };
  o.warn = [this](const std::string& line) { reporter_.warn(line); };
  o.waits = [this](std::string_view what) { reporter_.doing(what); };
  parts_.saves.emplace(std::move(o));
  parts_.trainer->engine().hooks().before_update = [this] { parts_.saves->before_update(); };
  if (!reporter_.is_rank0()) return;
  parts_.tokenizer_bytes = read_file(tokenizer_of_run(config_));
}

void RunStart::start() {
  make_saves();
  parts_.dumps->begin(*parts_.trainer);
  for (const Path& p : start_.unfinished)
    reporter_.warn(fmt::format("{} is not used: its save was interrupted", p.string()));
  if (start_.candidates.empty() && config_.lora.rank > 0 && reporter_.is_rank0())
    reporter_.warn(fmt::format(
        "lora.rank = {} without checkpoint.from: the frozen weights under the adapters are random. "
        "Set checkpoint.from to a pretrained checkpoint or Hugging Face folder.",
        config_.lora.rank));
  if (!config_.checkpoint.from.empty() && reporter_.is_rank0())
    if (const std::string why = word_split_warning(
            parts_.tokenizer_bytes, tokenizer_of_run(config_).string(), config_.model);
        !why.empty())
      reporter_.warn(why);
  LoadedStart loaded;
  if (start_.candidates.empty())
    parts_.trainer->initialize();
  else
    loaded = resume();
  set_references(loaded);
  parts_.input->begin(config_, parts_.trainer->data_rank(), position_);
  parts_.source_losses.emplace(config_, *parts_.input);
  count_steps();
  parts_.last_step = config_.schedule.steps;
  if (config_.run.stop_after_steps > 0)
    parts_.last_step = std::min(parts_.last_step, config_.run.stop_after_steps);
  const int64_t samples = parts_.input->samples_before(config_.schedule.steps);
  for (const std::string& line :
       data_lines(parts_.input->rows(), parts_.validation->sets(), samples))
    say(line);
  parts_.data = data_counts(parts_.input->rows(), samples);
  parts_.schedule = config::make_schedule(config_.schedule, config_.optimizer.learning_rate);
  world_.barrier();  // nothing is written before all ranks have loaded
  if (reporter_.is_rank0()) begin_record(loaded);
  if (parts_.first_step > parts_.last_step) return;
  int64_t bytes = int64_t{1} << 20;  // for the index and the rounding of file sizes
  for (const checkpoint::StateTensor& t : parts_.trainer->state())
    bytes += t.data.bytes() + checkpoint::kPieceAlignment;
  parts_.saves->reserve(bytes + std::ssize(parts_.tokenizer_bytes));
}

// A run that resumes may have consumed tokens in batches of another size than those of its run
// file.
void RunStart::count_steps() {
  config::ScheduleSection& s = config_.schedule;
  if (s.tokens == 0) return;
  s.steps = parts_.input->batches().shape().steps_for_tokens(s.tokens);
  say(fmt::format("schedule  {} tokens: {} steps", format_count(s.tokens), format_count(s.steps)));
}

void RunStart::set_references(const LoadedStart& loaded) {
  if (!config_.objective.has_reference()) return;
  const bool trained = !start_.candidates.empty() && start_.load == config::Load::kAll;
  std::vector<data::PreferenceData*> sets = parts_.validation->pairs();
  sets.insert(sets.begin(), parts_.input->rows().preferences());
  train::set_references(
      config_, *parts_.trainer, sets, world_,
      {directory(), loaded.checkpoint, !trained, [this](const std::string& line) { say(line); },
       [this](const std::string& what) { reporter_.doing(what); }});
}

void RunStart::begin_record(const LoadedStart& loaded) {
  options_.owner.require();
  const double wall_s = options_.wall_s ? options_.wall_s() : 0;
  for (const std::string& line :
       make_way(directory(), start_, loaded, parts_.first_step - 1, wall_s))
    say(line);
  reporter_.print_every(config_.metrics.print_every_steps);
  reporter_.begin_record(MetricsRecorderOptions{
      directory(), parts_.first_step, config_.metrics.tensorboard, config_.metrics.prometheus,
      config_.run.name, options_.wall_s, [this](const std::string& line) { reporter_.warn(line); },
      [this] { return options_.owner.owns_open_files(); }});
  const int64_t done = parts_.first_step - 1;
  const bool nothing_to_do = done > 0 && done >= parts_.last_step;
  if (nothing_to_do)
    say(fmt::format(
        "step {} of {} is done: nothing to do. Set {} to train further.", format_count(done),
        format_count(parts_.last_step),
        parts_.last_step < config_.schedule.steps ? "run.stop_after_steps" : "schedule.steps"));
  if (nothing_to_do && parts_.saves->last() == done) return;
  try {
    const Path written = write_run_file(config_, options_.version);
    if (written.filename() != "run.yaml")
      say(fmt::format("config    written to {}: your file run.yaml is not overwritten",
                      written.string()));
  } catch (const Error& e) {
    reporter_.warn(e.what());
  }
}

}  // namespace tessera::train
