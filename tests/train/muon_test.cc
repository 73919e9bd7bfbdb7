// Muon in whole runs: which weights it updates, and that each part of a packed weight and each
// expert is a matrix of its own. The reference is written from the formulas in double precision.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/newton_schulz.h"
#include "tests/config/optimizer_groups.h"
#include "tests/train/published_parts.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

std::unique_ptr<Trainer> trainer_of(const config::RunConfig& c, comm::World& world) {
  return std::make_unique<Trainer>(
      c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX, world,
      std::function<double()>());
}

config::RunConfig with_muon(model::Family family) {
  config::RunConfig c = tiny(family);
  if (model::rule_of(family).latent) {
    c.model.latent = {
        .query_rank = 12, .key_value_rank = 16, .nope_width = 8, .rope_width = 4, .value_width = 6};
    c.model.shared_feed_forward = 16;
  }
  c.optimizer = config::optimizer_defaults(OptimizerKind::kMuon);
  c.optimizer.clip_norm = 0;
  return c;
}

// a bᵀ for a [m, k] and b [n, k].
Numbers times_transposed(const Numbers& a, const Numbers& b, size_t m, size_t n, size_t k) {
  Numbers c(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t x = 0; x < k; ++x) c[i * n + j] += a[i * k + x] * b[j * k + x];
  return c;
}

Numbers transposed(const Numbers& a, size_t rows, size_t columns) {
  Numbers t(a.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  return t;
}

// Five iterations with the coefficients of the default.
Numbers orthogonal(Numbers x, size_t rows, size_t columns) {
  if (rows > columns)
    return transposed(orthogonal(transposed(x, rows, columns), columns, rows), columns, rows);
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::max(std::sqrt(squares), 1e-7);
  for (int64_t i = 0; i < 5; ++i) {
    const NewtonSchulzStep n = newton_schulz_step(NewtonSchulzCoefficients::kSimple, i);
    const Numbers a = times_transposed(x, x, rows, rows, columns);
    Numbers b = times_transposed(a, a, rows, rows, rows);
    for (size_t e = 0; e < b.size(); ++e) b[e] = n.b * a[e] + n.c * b[e];
    const Numbers bx = times_transposed(b, transposed(x, rows, columns), rows, columns, rows);
    for (size_t e = 0; e < x.size(); ++e) x[e] = n.a * x[e] + bx[e];
  }
  return x;
}

bool is_hidden_matrix(const std::string& name) {
  bool in_layer = false;
  for (const char* part : {"attn.", "cross.", "mlp."})
    in_layer = in_layer || name.find(part) != name.npos;
  return in_layer && name.ends_with(".weight") && name.find("norm") == name.npos &&
         name.find("router") == name.npos;
}

// One matrix of the tensors of Hugging Face, or one expert of them.
std::vector<Published> matrices(const checkpoint::StateTensor& t) {
  if (t.name.find(".experts.") == t.name.npos) return published(t);
  std::vector<Published> all;
  const Shape& s = t.shape;  // [E, I, 2, H] or [E, H, I]
  const bool pairs = s.rank() == 4;
  const int64_t inner = s[-1], each = s.product(1, s.rank());
  for (int64_t e = 0; e < s[0]; ++e)
    for (int64_t part = 0; part < (pairs ? 2 : 1); ++part) {
      Published p{fmt::format("{}.{}", e, part), {}, inner};
      for (int64_t i = 0; i < each; ++i)
        if (!pairs || i / inner % 2 == part) p.elements.push_back(e * each + i);
      all.push_back(std::move(p));
    }
  return all;
}

// Expects the step of one matrix: momentum `m` is updated.
void expect_step(const Published& p, const Numbers& before, const Numbers& after,
                 const Numbers& gradient, Numbers& m, const config::OptimizerSection& o,
                 double rate, const std::string& what) {
  const Numbers old = select(before, p.elements), found = select(after, p.elements);
  const Numbers g = select(gradient, p.elements);
  m.resize(g.size());
  Numbers u(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    m[i] = o.momentum * m[i] + (1 - o.momentum) * g[i];
    u[i] = o.nesterov ? o.momentum * m[i] + (1 - o.momentum) * g[i] : m[i];
  }
  const int64_t rows = std::ssize(g) / p.columns;
  const Numbers x = orthogonal(u, static_cast<size_t>(rows), static_cast<size_t>(p.columns));
  const double scale = update_scale(o.update_scale, rows, p.columns);
  double error = 0, change = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = (1 - rate * o.weight_decay) * old[i] - rate * scale * x[i];
    error += (found[i] - w) * (found[i] - w);
    change += (w - old[i]) * (w - old[i]);
  }
  EXPECT_LT(std::sqrt(error), 1e-4 * std::sqrt(change)) << what << " " << p.name;
}

class MuonFamilies : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Trainer, MuonFamilies,
                         testing::Values(model::Family::kLlama, model::Family::kQwen2,
                                         model::Family::kT5, model::Family::kMixtral,
                                         model::Family::kDeepseekV3));

TEST_P(MuonFamilies, EachPublishedMatrixIsMadeOrthogonal) {
  config::RunConfig c = with_muon(GetParam());
  c.optimizer.update_scale =
      GetParam() == model::Family::kQwen2 ? UpdateScale::kShape : UpdateScale::kSpectral;
  c.optimizer.nesterov = GetParam() != model::Family::kT5;
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  trainer->initialize();
  data::BatchSource source = batches(c);
  std::map<std::string, Numbers> kept;
  int compared = 0;
  for (int t = 1; t <= 2; ++t) {
    std::map<std::string, Numbers> before, after;
    for (const checkpoint::StateTensor& s : trainer->state()) before[s.name] = values(s);
    ASSERT_TRUE(trainer->step(t, 1e-2, source).finite);
    for (const checkpoint::StateTensor& s : trainer->state()) after[s.name] = values(s);
    for (const checkpoint::StateTensor& s : trainer->gradients()) {
      if (!is_hidden_matrix(s.name)) continue;
      Numbers gradient = values(s);
      for (double& g : gradient) g /= trainer->gradient_factor();
      for (const Published& p : matrices(s)) {
        expect_step(p, before.at(s.name), after.at(s.name), gradient, kept[s.name + "|" + p.name],
                    c.optimizer, 1e-2, fmt::format("{}, step {}", s.name, t));
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 20);
}

// Gradients do not depend on the optimizer. They are read after the step (run.dump_gradients), so
// the buffers of directions, and the scratch of their iterations, must not reuse their bytes.
TEST_P(MuonFamilies, GradientsAreIntactAfterTheStep) {
  std::map<std::string, Numbers> expected;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kMuon}) {
    config::RunConfig c = with_muon(GetParam());
    c.model.layers = 3;
    c.batch.global = c.batch.micro;
    c.optimizer.kind = kind;
    // Groups are updated one after the other, so directions are computed between updates.
    c.optimizer.groups = config::groups_of(
        "[{match: ['*.mlp.*'], learning_rate_multiplier: 0.5}, {match: ['*norm*'], kind: sgd}, "
        "{match: [embed.*], kind: adafactor}]");
    const auto world = comm::self_world();
    const auto trainer = trainer_of(c, *world);
    trainer->initialize();
    data::BatchSource source = batches(c);
    ASSERT_TRUE(trainer->step(1, 1e-3, source).finite);
    for (const checkpoint::StateTensor& s : trainer->gradients()) {
      const Numbers found = values(s);
      const auto [at, first] = expected.try_emplace(s.name, found);
      if (first) continue;
      double error = 0, norm = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        error += (found[i] - at->second[i]) * (found[i] - at->second[i]);
        norm += at->second[i] * at->second[i];
      }
      EXPECT_LE(error, 1e-10 * norm) << s.name;
    }
  }
}

// Muon keeps one moment, AdamW two. Biases of routers follow the load and keep none.
TEST_P(MuonFamilies, OtherWeightsHaveAdamW) {
  const config::RunConfig c = with_muon(GetParam());
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  std::map<std::string, Numbers> state;
  for (const checkpoint::StateTensor& s : trainer->state()) state[s.name];
  int matrices = 0;
  for (const auto& [name, none] : state) {
    if (name.find('|') != name.npos || name.ends_with(".router.bias")) continue;
    EXPECT_TRUE(state.contains(name + "|moment1")) << name;
    EXPECT_EQ(state.contains(name + "|moment2"), !is_hidden_matrix(name)) << name;
    matrices += is_hidden_matrix(name);
  }
  EXPECT_GE(matrices, 4);
}

// A group that gives its kind has Muon for all its matrices, and another kind takes them away.
TEST(Muon, GroupsOverrideTheRule) {
  config::RunConfig c = with_muon(model::Family::kMixtral);
  c.optimizer.groups = config::groups_of(
      "[{match: [embed.*, '*.router.*'], kind: muon}, {match: ['*.attn.*'], kind: sgd, beta1: 0},"
      " {match: ['*'], learning_rate_multiplier: 0.5}]");
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  std::map<std::string, int> state;
  for (const checkpoint::StateTensor& s : trainer->state()) ++state[s.name];
  for (const auto& [name, none] : state) {
    if (name.find('|') != name.npos) continue;
    const bool sgd = name.find(".attn.") != name.npos;
    const bool muon = name.find("embed.") != name.npos || name.find("router.") != name.npos ||
                      (is_hidden_matrix(name) && !sgd);
    EXPECT_EQ(state.contains(name + "|moment1"), !sgd) << name;
    EXPECT_EQ(state.contains(name + "|moment2"), !sgd && !muon) << name;
  }
}

TEST(Muon, KeysOfMuonNeedMuon) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.optimizer.momentum = 0.9;
  const auto has = [&](const std::string& path) {
    KeyErrors errors;
    config::check(c.optimizer, errors);
    const std::vector<KeyError>& all = errors.list();
    return std::any_of(all.begin(), all.end(), [&](const KeyError& e) { return e.path == path; });
  };
  EXPECT_TRUE(has("optimizer.momentum"));
  c.optimizer.groups = config::groups_of("[{match: [embed.*], kind: muon}]");
  EXPECT_TRUE(has("optimizer.momentum"));  // does not reach the group
  c.optimizer.momentum = 0.95;
  c.optimizer.groups = config::groups_of("[{match: [embed.*], kind: muon, momentum: 0.9}]");
  EXPECT_FALSE(has("optimizer.momentum"));
  EXPECT_FALSE(has("optimizer.groups[0].momentum"));
  c.optimizer.groups = config::groups_of("[{match: [embed.*], kind: sgd, nesterov: false}]");
  EXPECT_TRUE(has("optimizer.groups[0].nesterov"));
  c.optimizer.kind = OptimizerKind::kMuon;
  c.optimizer.momentum = 0.9;
  c.optimizer.groups.clear();
  EXPECT_FALSE(has("optimizer.momentum"));
}

}  // namespace
}  // namespace tessera::train
