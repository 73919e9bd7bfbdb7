// data_rates text FILE             reading documents (paragraphs of plain text, or JSON lines)
// data_rates rows RUN N            from a run's training data to N rows of batches
//
// How fast one thread does each stage of what `data` of a run file says. Prints a list of
//   {"stage", "bytes" (of text) or "tokens" (that went in), "cpu_s" of the thread, "wall_s"}
// text: "read". rows: "pack" (instructions: whole examples to rows), "tokens" (token files: samples
// as they stand there), "rows" (what a model reads), "batches" (rows behind the thread that reads
// ahead, asked for without a pause; cpu_s is of the thread that asks).
#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <limits>

#include "base/tree.h"
#include "cli/run_file.h"
#include "data/batches.h"
#include "data/documents.h"
#include "data/tokenizer.h"
#include "train/run_data.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

constexpr int kRounds = 3;  // the quickest counts: other work makes a stage longer, never shorter

double thread_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double wall_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// `work` does the stage once and says how much that was.
template <class Work>
Tree stage(const char* name, const char* unit, Work work) {
  constexpr double kLong = std::numeric_limits<double>::infinity();
  double cpu = kLong, wall = kLong;
  int64_t amount = 0;
  for (int i = 0; i < kRounds; ++i) {
    const double cpu_began = thread_s(), wall_began = wall_s();
    amount = work();
    cpu = std::min(cpu, thread_s() - cpu_began);
    wall = std::min(wall, wall_s() - wall_began);
  }
  Tree t = Tree::object();
  t.set("stage", Tree(std::string(name)));
  t.set(unit, Tree(amount));
  t.set("cpu_s", Tree(cpu));
  t.set("wall_s", Tree(wall));
  return t;
}

Tree text_stages(const std::string& file) {
  Tree out = Tree::list();
  out.push(stage("read", "bytes", [&] {
    data::DocumentStream stream(data::list_sources({file}), {.split = data::Split::kParagraphs});
    int64_t bytes = 0;
    for (data::Document d; stream.next(d);) bytes += std::ssize(d.text);
    return bytes;
  }));
  return out;
}

// Of `rows` rows.
struct Buffers {
  Buffers(int64_t rows, int64_t tokens, int64_t source)
      : samples(static_cast<size_t>(rows)), sources(static_cast<size_t>(rows * source)) {
    for (std::vector<int32_t>& v : values) v.resize(static_cast<size_t>(rows * tokens));
  }
  data::SampleRow row() { return {values[0], values[1], values[2], values[3], sources}; }
  data::BatchView batch() { return {values[0], values[1], values[2], samples, values[3], sources}; }

  std::vector<int32_t> values[4];
  std::vector<int64_t> samples;
  std::vector<int32_t> sources;
};

Tree packing(const data::InstructionData& data, int64_t row) {
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < data.examples(); ++i)
    lengths.push_back(static_cast<int32_t>(data.ids(i).size()) - 1);
  return stage("pack", "tokens", [&] {
    const data::RowPacking packed(lengths, row, 1);
    return packed.rows() > 0 ? data.tokens() : 0;
  });
}

Tree samples(data::TrainingData& data, int64_t rows) {
  std::vector<int32_t> ids(static_cast<size_t>(data.sample_tokens()));
  return stage("tokens", "tokens", [&] {
    for (int64_t i = 0; i < rows; ++i) data.read(i, ids);
    return rows * (data.sample_tokens() - 1);
  });
}

// Tokens of text that become a row, on average.
int64_t text_tokens(const train::TrainingRowReader& data) {
  if (data.datasets()) return data.datasets()->sample_tokens() - 1;
  return data.instructions()->tokens() / data.instructions()->rows();
}

Tree batches(const config::RunConfig& config, train::TrainingRowReader& data, int64_t rows) {
  data::BatchShape shape = config::batch_shape(config, 0);
  shape.sequence_length = data.row_tokens();
  shape.source_length = data.row_source();
  data::BatchSource source(shape,
                           [&](int64_t i, const data::SampleRow& row) { data.read_row(i, row); });
  Buffers many(shape.micro, data.row_tokens(), data.row_source());
  const int64_t steps = std::max<int64_t>(1, rows / shape.global);
  return stage("batches", "tokens", [&] {
    for (int64_t s = 0; s < steps; ++s)
      for (int64_t m = 0; m < shape.microbatches(s); ++m) source.fill(s, m, many.batch());
    return steps * shape.global * text_tokens(data);
  });
}

Tree row_stages(const std::string& file, int64_t rows) {
  config::RunConfig config = cli::open_run(file, {});
  train::resolve_sizes(config);
  const auto tokenizer = data::load_tokenizer(config.data.tokenizer);
  train::TrainingRowReader data(config, config.model.vocabulary, *tokenizer);
  Tree out = Tree::list();
  if (data.instructions()) out.push(packing(*data.instructions(), data.row_tokens()));
  if (data.datasets()) {
    data::TrainingData raw(train::training_spec(config, config.model.vocabulary, *tokenizer));
    out.push(samples(raw, rows));
  }
  Buffers one(1, data.row_tokens(), data.row_source());
  out.push(stage("rows", "tokens", [&] {
    for (int64_t i = 0; i < rows; ++i) data.read_row(i, one.row());
    return rows * text_tokens(data);
  }));
  out.push(batches(config, data, rows));
  return out;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "";
    const bool text = what == "text" && argc == 3, rows = what == "rows" && argc == 4;
    if (!text && !rows) throw tessera::Error("usage: data_rates text FILE | rows RUN N");
    fmt::print("{}\n", tessera::to_json(text ? tessera::text_stages(argv[2])
                                             : tessera::row_stages(argv[2], std::stoll(argv[3]))));
    return 0;
  } catch (const tessera::Error& e) {
    fmt::print(stderr, "data_rates: {}\n", e.what());
    return 1;
  }
}
