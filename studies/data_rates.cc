// data_rates RUN ROWS [key=value …]
//
// How fast one thread makes rows of a run's training data, whatever the run file's `data` says, and
// how fast BatchSource hands out micro-batches that are asked for without a pause. Prints one
// object:
//   rows, tokens_a_row (with an encoder's), row_s      a row on average, of the thread's own time,
//   so
//                                                      that other work on the machine does not
//                                                      count
//   fill_s                                             a row on average, wall time, reading ahead
#include <fmt/format.h>
#include <time.h>

#include <chrono>

#include "base/tree.h"
#include "cli/run_file.h"
#include "data/batches.h"
#include "data/tokenizer.h"
#include "train/run_data.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

double thread_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double wall_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Buffers of `rows` rows and the view of them.
struct Buffers {
  Buffers(int64_t rows, int64_t tokens, int64_t source)
      : samples(static_cast<size_t>(rows)), sources(static_cast<size_t>(rows * source)) {
    for (std::vector<int32_t>& v : values) v.resize(static_cast<size_t>(rows * tokens));
  }
  SampleRow row() { return {values[0], values[1], values[2], values[3], sources}; }
  BatchView batch() { return {values[0], values[1], values[2], samples, values[3], sources}; }

  std::vector<int32_t> values[4];
  std::vector<int64_t> samples;
  std::vector<int32_t> sources;
};

int run(const std::string& file, int64_t rows, std::span<const std::string> keys) {
  RunConfig config = open_run(file, keys);
  resolve_sizes(config);
  const auto tokenizer = load_tokenizer(config.data.tokenizer);
  TrainingRows data(config, config.model.vocabulary, *tokenizer);
  Buffers one(1, data.row_tokens(), data.row_source());
  for (int64_t i = 0; i < rows / 10; ++i) data.read_row(i, one.row());  // pages come in
  const double began = thread_s();
  for (int64_t i = 0; i < rows; ++i) data.read_row(i, one.row());
  const double row_s = (thread_s() - began) / static_cast<double>(rows);

  BatchShape shape = batch_shape(config, 0);
  shape.sequence_length = data.row_tokens();
  shape.source_length = data.row_source();
  BatchSource batches(shape, [&](int64_t i, const SampleRow& row) { data.read_row(i, row); });
  Buffers many(shape.micro, data.row_tokens(), data.row_source());
  const int64_t steps = std::max<int64_t>(1, rows / shape.global);
  const double asked = wall_s();
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t m = 0; m < shape.microbatches(s); ++m) batches.fill(s, m, many.batch());
  const double fill_s = (wall_s() - asked) / static_cast<double>(steps * shape.global);

  Tree t = Tree::object();
  t.set("rows", Tree(rows));
  t.set("tokens_a_row", Tree(data.row_tokens() + data.row_source()));
  t.set("row_s", Tree(row_s));
  t.set("fill_s", Tree(fill_s));
  fmt::print("{}\n", to_json(t));
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw tessera::Error("usage: data_rates RUN ROWS [key=value …]");
    const std::vector<std::string> keys(argv + 3, argv + argc);
    return tessera::run(argv[1], std::stoll(argv[2]), keys);
  } catch (const tessera::Error& e) {
    fmt::print(stderr, "data_rates: {}\n", e.what());
    return 1;
  }
}
