// The shipped machines and programs can be read and plan a known model; what people and scripts
// see.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "compile/compile.h"
#include "model/presets.h"
#include "plan/explain.h"
#include "plan/neighbors.h"
#include "plan/predict.h"
#include "plan/simulate.h"

namespace tessera::plan {
namespace {

std::vector<Path> files_of(const char* folder) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(Path(TESSERA_CONFIGS) / folder))
    files.push_back(entry.path());
  EXPECT_FALSE(files.empty());
  return files;
}

compile::CompileRequest small() {
  compile::CompileRequest r;
  EXPECT_TRUE(model::apply_preset("pythia-160m", r.model));
  model::derive_sizes(r.model);
  r.model.layers = 4;
  r.layout.data = r.layout.tensor = r.layout.pipeline = 2;
  r.sequences = 2;
  r.tokens = 512;
  r.microbatches = 4;
  r.precision = compile::Precision::kBf16;
  return r;
}

TEST(PlanFiles, EveryMachineAndEveryProgramPlanAModel) {
  for (const Path& machine : files_of("clusters")) {
    const Hardware h = load_hardware(machine);
    for (const Path& program : files_of("software")) {
      const Prediction p = predict(small(), h, load_software(program), cluster_target());
      EXPECT_GT(p.mfu(), 0.001) << machine << program;
      EXPECT_LT(p.hfu(), 1) << machine << program;
      EXPECT_TRUE(fits(p, h));
    }
  }
}

TEST(PlanFiles, OtherProgramsAreSlowerThanOurs) {
  const Hardware h = load_hardware(Path(TESSERA_CONFIGS) / "clusters/a100-80gb.yaml");
  const auto step = [&](const char* name) {
    return predict(small(), h, load_software(Path(TESSERA_CONFIGS) / "software" / name),
                   cluster_target())
        .step_s;
  };
  EXPECT_GT(step("megatron-2022.yaml"), step("tessera.yaml"));
}

TEST(Explain, ThePageAndTheKeysOfScripts) {
  const Hardware h = load_hardware(Path(TESSERA_CONFIGS) / "clusters/a100-80gb.yaml");
  const Prediction p = predict(small(), h, {}, cluster_target());
  const Tree t = as_tree(p, h, small().layout);
  for (const char* key : {"step_s", "tokens_per_s", "mfu", "hfu", "memory", "bubble",
                          "exposed_communication_s", "usd_per_million_tokens", "layout"})
    EXPECT_NE(t.find(key), nullptr) << key;
  for (const char* key :
       {"peak_bytes", "weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes"})
    EXPECT_NE(t.find("memory")->find(key), nullptr) << key;
  const std::string text = page(p, h, {"pythia", 1e12});
  for (const char* words : {"pythia on 8 A100-80GB", "fits: ", "tokens/s", "limited by: "})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_NEAR(p.usd(1e6), p.usd_per_million_tokens(), 1e-12);
}

TEST(Explain, DrawsEveryStage) {
  const std::vector<Program> stages = compile::compile_stages(small(), cluster_target());
  const Hardware h = load_hardware(Path(TESSERA_CONFIGS) / "clusters/a100-80gb.yaml");
  const std::string svg = draw(stages, timeline_of(stages, h, {}));
  for (const char* words : {"<svg", "stage 1", "send_forward", "arena"})
    EXPECT_NE(svg.find(words), std::string::npos) << words;
}

TEST(Neighbors, KeepTheDevicesAndTheBatch) {
  const compile::CompileRequest r = small();
  const std::vector<Neighbor> all = neighbors(r);
  EXPECT_GT(all.size(), 8u);
  for (const Neighbor& n : all) {
    EXPECT_EQ(compile::mesh_of(n.request.layout).ranks(), compile::mesh_of(r.layout).ranks())
        << n.keys;
    EXPECT_EQ(n.request.sequences * n.request.layout.data * n.request.microbatches,
              r.sequences * r.layout.data * r.microbatches)
        << n.keys;
  }
}

// What bounds leave out is what compiling would have.
TEST(Neighbors, TriedAreThoseThatFitAndAreFaster) {
  const Hardware h = load_hardware(Path(TESSERA_CONFIGS) / "clusters/a100-80gb.yaml");
  const compile::CompileRequest r = small();
  const double now = predict(r, h, {}, cluster_target()).step_s;
  size_t faster = 0;
  for (const Neighbor& n : neighbors(r)) try {
      faster += predict(n.request, h, {}, cluster_target()).step_s < now;
    } catch (const Error&) {  // not a layout of this model
    }
  const auto tried = try_neighbors(r, h, {}, cluster_target(), now);
  EXPECT_EQ(tried.size(), faster);
  EXPECT_GT(faster, 0u);
  for (size_t i = 1; i < tried.size(); ++i)
    EXPECT_LE(tried[i - 1].prediction.step_s, tried[i].prediction.step_s);
}

// Memory between what a run needs and what it needs with all of its layers spared.
TEST(Sparing, TakesTheFewestLayersThatMakeARunFit) {
  Hardware h = load_hardware(Path(TESSERA_CONFIGS) / "clusters/a100-80gb.yaml");
  compile::CompileRequest r = small();
  r.model.layers = 12;
  r.tokens = 512;
  r.sequences = 8;
  model::derive_sizes(r.model);
  const auto peak = [&](const compile::CompileRequest& of) {
    return static_cast<double>(predict(of, h, {}, cluster_target()).fullest().peak_bytes);
  };
  compile::CompileRequest all = r;
  all.layout.recompute = "full";
  const double most = peak(r), least = peak(all);
  ASSERT_LT(least, most);
  EXPECT_TRUE(memory_savings({"", r}, h, {}, cluster_target()).empty());  // it fits
  h.device.memory_bytes = 0.5 * (least + most);
  std::vector<Neighbor> found = memory_savings({"", r}, h, {}, cluster_target());
  std::erase_if(found, [](const Neighbor& n) { return n.keys.ends_with("optimizer"); });
  ASSERT_EQ(found.size(), 2u);
  for (const Neighbor& n : found) {
    EXPECT_LE(peak(n.request), usable_bytes(h.device)) << n.keys;
    const size_t equals = n.keys.find('='), colon = n.keys.find(':');
    ASSERT_NE(colon, std::string::npos) << n.keys;
    const int64_t layers = std::stoll(n.keys.substr(colon + 1));
    compile::CompileRequest fewer = n.request;
    (n.keys.starts_with("layout.recompute") ? fewer.layout.recompute : fewer.layout.offload) =
        fmt::format("{}:{}", n.keys.substr(equals + 1, colon - equals - 1), layers - 1);
    EXPECT_GT(peak(fewer), usable_bytes(h.device)) << n.keys;
  }
  const auto tried =
      try_neighbors(r, h, {}, cluster_target(), std::numeric_limits<double>::infinity());
  for (const Neighbor& n : found)
    EXPECT_TRUE(std::any_of(tried.begin(), tried.end(), [&](const Tried& t) {
      return t.keys == n.keys;
    })) << n.keys;
  h.device.host_bytes_per_s = 0;
  EXPECT_EQ(memory_savings({"", r}, h, {}, cluster_target()).size(), 1u);
}

// Where the state of the optimizer alone is too much, the layers' activations do not help.
TEST(Sparing, OptimizerOnTheHost) {
  Hardware h = load_hardware(Path(TESSERA_CONFIGS) / "clusters/a100-80gb.yaml");
  h.device.outside_bytes = h.device.communication_bytes = h.device.communicator_bytes = 0;
  const compile::CompileRequest r = small();
  const auto peak = [&](const char* offload) {
    compile::CompileRequest of = r;
    of.layout.offload = offload;
    return static_cast<double>(predict(of, h, {}, cluster_target()).fullest().peak_bytes);
  };
  const auto keys = [&](double bytes) {
    h.device.memory_bytes = bytes / (1 - h.device.headroom) + 1;
    std::vector<std::string> all;
    for (const Neighbor& n : memory_savings({"", r}, h, {}, cluster_target()))
      all.push_back(n.keys);
    return all;
  };
  const double both = peak("activations+optimizer"), state = peak("optimizer");
  ASSERT_LT(both, state);
  ASSERT_LT(state, peak("none"));
  EXPECT_EQ(keys(state).back(), "layout.offload=optimizer");
  EXPECT_EQ(keys(0.5 * (both + state)).back(), "layout.offload=activations+optimizer");
}

TEST(LeastDevices, IsEnoughAndOneLessIsNot) {
  Hardware h = load_hardware(Path(TESSERA_CONFIGS) / "clusters/a100-80gb.yaml");
  h.device.outside_bytes = h.device.communication_bytes = h.device.communicator_bytes = 0;
  const compile::CompileRequest r = small();
  const auto one = least_devices(r, h, {}, cluster_target());
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->devices, 1);
  h.device.memory_bytes = static_cast<double>(one->peak_bytes) * 0.6;
  const auto more = least_devices(r, h, {}, cluster_target());
  ASSERT_TRUE(more.has_value());
  EXPECT_GT(more->devices, 1);
  EXPECT_LE(static_cast<double>(more->peak_bytes), usable_bytes(h.device));
  h.device.memory_bytes = 1000;
  EXPECT_FALSE(least_devices(r, h, {}, cluster_target()).has_value());
}

}  // namespace
}  // namespace tessera::plan
