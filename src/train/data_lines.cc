// Writes the log lines of a run about its data.
#include "train/run_data.h"

#include "base/count.h"
#include "base/error.h"

namespace tessera::train {
namespace {

// Repeating text more than about four times improves a model little (Muennighoff et al. 2023), and
// instruction tuning uses a few epochs. The threshold of the warning is well above both.
constexpr double kManyEpochs = 10;

std::string read_times(const TrainingRowReader::MostRead& most) {
  const std::string dataset =
      most.dataset.empty() ? "" : fmt::format(" ({}; fewer of the other datasets)", most.dataset);
  if (most.epochs < 1)
    return fmt::format("this run reads {:.2f} of an epoch{}", most.epochs, dataset);
  return fmt::format("this run reads {:.{}f} epochs{}", most.epochs,
                     most.epochs < kManyEpochs ? 2 : 0, dataset);
}

}  // namespace

std::vector<std::string> data_lines(const TrainingRowReader& rows,
                                    const std::vector<ValidationSet>& validation, int64_t samples) {
  const TrainingRowReader::MostRead most = rows.most_read(samples);
  const std::optional<data::InstructionCounts> counts = rows.counts();
  std::vector<std::string> lines = {
      fmt::format("data      {} · {}",
                  counts ? data::describe(*counts) : format_count(rows.tokens()) + " tokens",
                  read_times(most))};
  const auto warn = [&](const std::string& what) { lines.push_back("warning   " + what); };
  if (counts)
    for (const std::string& what : counts->warnings) warn(what);
  for (const ValidationSet& set : validation) {
    const data::InstructionData* const asked = set.data ? set.data->instructions() : nullptr;
    if (!asked && !set.pairs) continue;
    const data::InstructionCounts own = asked ? asked->counts() : set.pairs->counts();
    lines.push_back(fmt::format("validate  {}: {}", set.name, data::describe(own)));
    for (const std::string& what : own.warnings) warn(set.name + ": " + what);
  }
  if (most.epochs >= kManyEpochs)
    warn(fmt::format(
        "{} is read {:.0f} times: the model will memorize it. {}",
        most.dataset.empty() ? "the data" : most.dataset, most.epochs,
        most.dataset.empty()
            ? "Use more data, or lower schedule.steps"
            : "Use more data, lower its weight in data.train, or lower schedule.steps"));
  return lines;
}

Tree data_counts(const TrainingRowReader& rows, int64_t samples) {
  Tree t;
  if (const std::optional<data::InstructionCounts> counts = rows.counts())
    t = data::to_tree(*counts);
  else
    t.set("tokens", Tree(rows.tokens()));
  t.set("epochs", Tree(rows.most_read(samples).epochs));
  return t;
}

std::string validation_line(const ValidationMetrics& m) {
  std::string figures;
  if (m.bits_per_byte) figures = fmt::format("{:.3f} bits/byte", *m.bits_per_byte);
  if (m.preference) figures = text_of(*m.preference);
  return fmt::format("step {} validation loss{} {:.3f} ({})", format_count(m.step),
                     m.name == "validation" ? "" : " on " + m.name, m.validation_loss, figures);
}

}  // namespace tessera::train
