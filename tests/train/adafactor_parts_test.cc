// F3: Adafactor on packed weights is transformers' on the tensors that Hugging Face stores. The
// reference below is written from transformers/optimization.py (Adafactor.step), in double
// precision, on the parts as published.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/train/published_parts.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

struct Moments {
  Numbers rows, columns;
};

double mean_square(const Numbers& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum / static_cast<double>(x.size());
}

// One step on one tensor; weights are changed.
void adafactor(Numbers& w, const Numbers& g, int64_t columns, Moments& m, int64_t t,
               const config::OptimizerSection& o, double rate) {
  const double b = 1 - std::pow(static_cast<double>(t), -o.decay_power);
  const auto n = static_cast<int64_t>(w.size());
  const int64_t rows = columns > 0 ? n / columns : n;
  const auto at = [](Numbers& v, int64_t i) -> double& { return v[static_cast<size_t>(i)]; };
  Numbers row(static_cast<size_t>(rows)), column(static_cast<size_t>(columns)), u = g;
  for (int64_t i = 0; i < n; ++i) {
    const double square = g[static_cast<size_t>(i)] * g[static_cast<size_t>(i)] + o.epsilon;
    at(row, columns > 0 ? i / columns : i) +=
        square / static_cast<double>(std::max<int64_t>(columns, 1));
    if (columns > 0) at(column, i % columns) += square / static_cast<double>(rows);
  }
  m.rows.resize(row.size());
  m.columns.resize(column.size());
  for (size_t i = 0; i < row.size(); ++i) m.rows[i] = b * m.rows[i] + (1 - b) * row[i];
  for (size_t i = 0; i < column.size(); ++i) m.columns[i] = b * m.columns[i] + (1 - b) * column[i];
  const double mean =
      std::accumulate(m.rows.begin(), m.rows.end(), 0.0) / static_cast<double>(rows);
  for (int64_t i = 0; i < n; ++i)
    at(u, i) /= columns > 0 ? std::sqrt(at(m.rows, i / columns) / mean * at(m.columns, i % columns))
                            : std::sqrt(at(m.rows, i));
  const double clip = std::max(1.0, std::sqrt(mean_square(u)) / o.clip_threshold);
  const double own = rate * std::max(o.min_parameter_scale, std::sqrt(mean_square(w)));
  for (int64_t i = 0; i < n; ++i) at(w, i) -= own * at(u, i) / clip;
}

class PackedAdafactor : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Trainer, PackedAdafactor,
                         testing::Values(model::Family::kLlama, model::Family::kQwen2,
                                         model::Family::kT5));

TEST_P(PackedAdafactor, F3_PartsAreUpdatedAsPublishedTensors) {
  config::RunConfig c = tiny(GetParam());
  c.optimizer = config::optimizer_defaults(OptimizerKind::kAdafactor);
  c.optimizer.epsilon = 1e-10;
  c.optimizer.weight_decay = 0;
  c.optimizer.clip_norm = 0;
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialize();
  data::BatchSource source = batches(c);
  std::map<std::string, Moments> kept;
  for (int t = 1; t <= 3; ++t) {
    std::map<std::string, Numbers> before;
    for (const checkpoint::StateTensor& s : trainer.state())
      if (s.name.find('|') == s.name.npos) before[s.name] = values(s);
    ASSERT_TRUE(trainer.step(t, 1e-2, source).finite);
    std::map<std::string, Numbers> after;
    for (const checkpoint::StateTensor& s : trainer.state()) after[s.name] = values(s);
    for (const checkpoint::StateTensor& s : trainer.gradients()) {
      ASSERT_EQ(s.data.shape, s.shape);
      Numbers gradient = values(s);
      for (double& g : gradient) g /= trainer.gradient_factor();
      for (const Published& p : published(s)) {
        const Numbers old = select(before.at(s.name), p.elements);
        Numbers w = old;
        Moments& m = kept[s.name + p.name];
        adafactor(w, select(gradient, p.elements), p.columns, m, t, c.optimizer, 1e-2);
        const Numbers found = select(after.at(s.name), p.elements);
        double error = 0, change = 0;
        for (size_t i = 0; i < w.size(); ++i) {
          error += (found[i] - w[i]) * (found[i] - w[i]);
          change += (w[i] - old[i]) * (w[i] - old[i]);
        }
        EXPECT_LT(std::sqrt(error), 2e-5 * std::sqrt(change))
            << s.name << " " << p.name << " " << t;
        const std::string suffix = p.name.empty() ? "" : "." + p.name;
        const Numbers& rows = after.at(s.name + "|rows" + suffix);
        ASSERT_EQ(rows.size(), m.rows.size()) << s.name;
        for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], m.rows[i], 1e-6 * m.rows[i]);
        EXPECT_EQ(after.contains(s.name + "|columns" + suffix), p.columns > 0) << s.name;
      }
    }
  }
}

using Means = std::map<std::string, std::vector<float>>;

// Means of the rows and columns of packed weights, as version 0.1 named them.
Means packed_means(const std::vector<checkpoint::StateTensor>& state) {
  Means means;
  for (const checkpoint::StateTensor& t : state) {
    if (t.name.find('|') != t.name.npos) continue;
    const std::vector<Published> parts = published(t);
    if (parts.size() == 1) continue;
    const int64_t n = t.shape.elements(), columns = parts[0].columns;
    for (int64_t i = 0; i < (columns > 0 ? n / columns : n); ++i)
      means[t.name + "|rows"].push_back(1.0f + static_cast<float>(i * 37 % 11));
    for (int64_t j = 0; j < columns; ++j)
      means[t.name + "|columns"].push_back(0.5f + static_cast<float>(j * 13 % 7));
  }
  return means;
}

void save_with(Means& means, const std::vector<checkpoint::StateTensor>& state,
               const config::RunConfig& c, const Path& folder) {
  checkpoint::CheckpointWriter writer(folder);
  for (const checkpoint::StateTensor& t : state)
    if (t.name.find('.', std::min(t.name.size(), t.name.find('|'))) == t.name.npos) writer.add(t);
  for (auto& [name, values] : means) {
    const auto n = static_cast<int64_t>(values.size());
    writer.add({name, DType::kF32, {n}, {}, {}, {values.data(), DType::kF32, {n}}});
  }
  checkpoint::CheckpointHeader header;
  header.step = 5;
  header.model = to_tree(c.model);
  writer.commit(header);
}

double mean(const auto& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

// A checkpoint of 0.1 has one set of means for a packed weight. The estimate of each element's
// second moment, rows[i] · columns[j] / mean(rows), stays what it was.
TEST_P(PackedAdafactor, F3_OldCheckpointsAreSplit) {
  config::RunConfig c = tiny(GetParam());
  c.optimizer = config::optimizer_defaults(OptimizerKind::kAdafactor);
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1), INT64_MAX,
                  *world, {});
  trainer.initialize();
  Means old = packed_means(trainer.state());
  std::string folder = std::filesystem::temp_directory_path() / "tessera_factors.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  save_with(old, trainer.state(), c, Path(folder) / "5");
  checkpoint::CheckpointReader reader(Path(folder) / "5");
  trainer.load(reader, config::Load::kAll);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(trainer.updates(), 5);
  std::map<std::string, Numbers> now;
  for (const checkpoint::StateTensor& t : trainer.state()) now[t.name] = values(t);
  int64_t compared = 0;
  for (const checkpoint::StateTensor& t : trainer.state()) {
    if (!old.contains(t.name + "|rows")) continue;
    const std::vector<float>& packed = old.at(t.name + "|rows");
    for (const Published& p : published(t)) {
      const Numbers& rows = now.at(t.name + "|rows." + p.name);
      for (size_t e = 0; e < p.elements.size(); ++e, ++compared) {
        const auto at = static_cast<size_t>(p.elements[e]);
        if (p.columns == 0) {
          EXPECT_EQ(rows[e], static_cast<double>(packed[at]));
          continue;
        }
        const auto width = static_cast<size_t>(p.columns);
        const Numbers& columns = now.at(t.name + "|columns." + p.name);
        const double before = static_cast<double>(packed[at / width]) *
                              static_cast<double>(old.at(t.name + "|columns")[at % width]) /
                              mean(packed);
        EXPECT_NEAR(rows[e / width] * columns[e % width] / mean(rows), before, 1e-6 * before);
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace tessera::train
