// Reading machines, and what ops and collectives take on them.
#include <gtest/gtest.h>

#include "plan/links.h"
#include "plan/op_time.h"
#include "plan/software.h"
#include "tests/plan/machine.h"

namespace tessera::plan {
namespace {

using testing::plain_machine;

constexpr const char* kGood =
    "name: x\n"
    "device: { name: d, memory_bytes: 1e9, memory_bytes_per_s: 1e9, memory_efficiency: 0.8,\n"
    "  bf16_flops_per_s: 1e12, fp32_flops_per_s: 1e12, matrix_efficiency: 0.7 }\n"
    "node: { devices: 4, bytes_per_s: 1e9, efficiency: 0.9, latency_s: 1e-6 }\n"
    "network: { bytes_per_s: 1e9, efficiency: 0.9, latency_s: 1e-6 }\n";

Hardware read(const std::string& text, std::vector<std::string> overrides = {}) {
  return read_hardware(parse_yaml(text, "x.yaml"), "x.yaml", overrides);
}

std::string refusal(const std::string& text, std::vector<std::string> overrides = {}) {
  try {
    read(text, overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string without(const std::string& key) {
  std::string text = kGood;
  const size_t from = text.find(key);
  const size_t to = text.find_first_of(",}", from);
  return text.erase(from, to - from + (text[to] == ',' ? 1 : 0));
}

TEST(Hardware, ReadsFiguresAndReplacesThem) {
  EXPECT_EQ(read(kGood).device.memory_efficiency, 0.8);
  EXPECT_EQ(read(kGood, {"device.memory_efficiency=0.5"}).device.memory_efficiency, 0.5);
}

TEST(Hardware, RefusesWhatIsMissingNegativeOrNoShare) {
  EXPECT_EQ(refusal(kGood), "");
  for (const char* key : {"memory_bytes:", "memory_bytes_per_s:", "memory_efficiency:",
                          "bf16_flops_per_s:", "matrix_efficiency:", "devices:"}) {
    const std::string name(key, std::string_view(key).size() - 1);
    EXPECT_NE(refusal(without(key)).find(name + " is missing"), std::string::npos) << key;
  }
  EXPECT_NE(refusal(kGood, {"device.memory_bytes=-1"}).find("device.memory_bytes = -1"),
            std::string::npos);
  EXPECT_NE(refusal(kGood, {"node.efficiency=1.2"}).find("expected a share"), std::string::npos);
  EXPECT_NE(refusal(kGood, {"network.bytes_per_s=0"}).find("more than 0"), std::string::npos);
  std::string text = kGood;
  text.replace(text.find("memory_bytes: 1e9"), 17, "memory_bytes: -2 ");
  EXPECT_NE(refusal(text).find("x.yaml:2:34"), std::string::npos) << refusal(text);
  EXPECT_NE(refusal(text + "price: { usd: 3 }\n").find("usd_per_device_hour"), std::string::npos);
}

// What is found, what was wanted, and what to do.
TEST(Hardware, RefusesOtherUnitsAndWhatDoesNotGoTogether) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"device.memory_bytes=80", "80 GiB are 85899345920"},
      {"node.bytes_per_s=300", "300 GB/s are 300e9"},
      {"device.bf16_flops_per_s=312", "312 TFLOP/s is 312e12"},
      {"network.latency_s=4", "4 us are 4e-6"},
      {"device.kind=tpu", "one of gpu, cpu, accelerator"},
      {"device.outside_bytes=1e15", "leaves nothing"},
      {"node.package_devices=3", "package"},
  };
  for (const auto& [figure, wanted] : wrong)
    EXPECT_NE(refusal(kGood, {figure}).find(wanted), std::string::npos)
        << figure << ": " << refusal(kGood, {figure});
  const auto with = [](const std::string& more) {
    std::string text = kGood;
    return text.insert(text.find("memory_bytes:"), more);
  };
  const std::string near = refusal(with("op_bytes_per_s: { nrm.bf16: 1e9 }, "));
  EXPECT_NE(near.find("Did you mean 'norm'?"), std::string::npos) << near;
  const std::string product = refusal(
      with("products: [{ type: f16, kind: forward, m: 1, n: 1, k: 1, flops_per_s: 1e9 }], "));
  EXPECT_NE(product.find("expected f32 | bf16"), std::string::npos) << product;
}

TEST(Software, RefusesNegativeTimesAndKeepsWhatWasGiven) {
  const auto read_text = [](const std::string& text) {
    return read_software(parse_yaml("name: s\n" + text, "s.yaml"), "s.yaml");
  };
  EXPECT_THROW(read_software(parse_yaml("", "s.yaml"), "s.yaml"), Error);
  EXPECT_THROW(read_text("launch_s: 20\n"), Error);  // meant in microseconds
  EXPECT_THROW(read_text("kernels: { nrm: 1 }\n"), Error);
  EXPECT_THROW(read_text("launch_s: -1\n"), Error);
  EXPECT_THROW(read_text("kernels: { norm: -1 }\n"), Error);
  EXPECT_THROW(read_text("attention_share: 0\n"), Error);
  EXPECT_THROW(read_text("attention_share: 50\n"), Error);  // meant in percent
  EXPECT_THROW(read_text("expert_imbalance: 0.5\n"), Error);
  const Software s = read_text("compiler: { cross_entropy: unfused }\n");
  compile::CompileRequest r;
  r.options.attention = compile::AttentionKind::kUnfused;
  r = as_compiled_by(s, r);
  EXPECT_EQ(r.options.cross_entropy, compile::CrossEntropyKind::kUnfused);
  EXPECT_EQ(r.options.attention, compile::AttentionKind::kUnfused);  // the run's own
}

TEST(Links, GroupsStandWhereTheirRanksDo) {
  Mesh mesh;
  mesh[AxisKind::kShard] = 4;
  mesh[AxisKind::kTensor] = 2;
  const Hardware h = plain_machine();  // four devices a node
  const GroupShape tensor = group_shape(mesh, GroupRef::along({AxisKind::kTensor}), 0, h);
  EXPECT_EQ(tensor.members, 2);
  EXPECT_EQ(tensor.nodes, 1);
  EXPECT_EQ(tensor.at_once, 2);
  const GroupShape data = group_shape(mesh, GroupRef::along({AxisKind::kShard}), 0, h);
  EXPECT_EQ(data.members, 4);
  EXPECT_EQ(data.nodes, 2);
  EXPECT_EQ(data.per_node, 2);
  EXPECT_EQ(data.at_once, 2);
}

TEST(Links, RingTreeAndHierarchyByHand) {
  Hardware h = plain_machine();
  // Within a node, 1e9 bytes over 4 members at 1e11: 2 x (3/4 x 10 ms + 3 hops) by ring, 2 x (10 ms
  // + 2 hops) by tree.
  const GroupShape local{4, 1, 4, false, 1};
  EXPECT_NEAR(collective_s(CommKind::kAllReduce, 1e9, local, h), 2 * (0.0075 + 3e-6), 1e-9);
  EXPECT_NEAR(collective_s(CommKind::kAllGather, 1e9, local, h), 0.0075 + 3e-6, 1e-9);
  // A few bytes: hops decide, and the tree has fewer.
  EXPECT_NEAR(collective_s(CommKind::kAllReduce, 8, local, h), 2 * 2e-6, 1e-9);
  // Four nodes with four members each, one group: an adapter has 2.5e10. The ring passes each node
  // through one adapter; the hierarchy uses all four.
  const GroupShape wide{16, 4, 4, false, 1};
  const double ring = 15.0 / 16 * 1e9 / 2.5e10 + 12e-6 + 15e-6;
  const double hierarchy = 0.0075 + 3e-6 + 0.75 * 0.25e9 / 2.5e10 + 15e-6;
  EXPECT_NEAR(collective_s(CommKind::kAllGather, 1e9, wide, h), std::min(ring, hierarchy), 1e-9);
  EXPECT_LT(hierarchy, ring);
  // Other software does so with whole nodes alone.
  const GroupShape whole{16, 4, 4, false, 1, false}, part{8, 4, 2, false, 1, false};
  EXPECT_NEAR(collective_s(CommKind::kAllGather, 1e9, whole, h), hierarchy, 1e-9);
  EXPECT_NEAR(collective_s(CommKind::kAllGather, 1e9, part, h),
              7.0 / 8 * 1e9 / 2.5e10 + 4e-6 + 15e-6, 1e-9);
  EXPECT_EQ(collective_s(CommKind::kAllReduce, 1e9, {}, h), 0);
}

TEST(Links, GroupsOfANodeShareWhatItInjects) {
  Hardware h = plain_machine();
  h.network.adapters = 1;
  const GroupShape alone{8, 8, 1, false, 1}, four{8, 8, 1, false, 4};
  const double one = collective_s(CommKind::kReduceScatter, 1e9, alone, h);
  const double all = collective_s(CommKind::kReduceScatter, 1e9, four, h);
  EXPECT_NEAR((all - 7 * 5e-6) / (one - 7 * 5e-6), 4, 1e-6);
}

TEST(Products, WavesOfTilesAndTheBytes) {
  DeviceFigures d = plain_machine().device;
  d.processors = 100;
  const auto time = [&](int64_t m, int64_t n, int64_t k) {
    return product_s({1, m, n, k, DType::kBF16}, d);
  };
  // 100 tiles of 256 x 128 fill one wave: 2 x 256 x 128 x (k + 200) at 2e12 each.
  EXPECT_NEAR(time(2560, 1280, 4096), 2.0 * 256 * 128 * (4096 + 200) / 2e12, 1e-9);
  // One row of tiles more is a second wave, most of which stands empty.
  EXPECT_GT(time(2561, 1280, 4096), 1.05 * time(2560, 1280, 4096));
  // A thin product takes what its bytes take.
  EXPECT_NEAR(time(1, 1 << 14, 1 << 14), 2.0 * (1 << 28) / 1e12, 1e-5);
  for (int64_t n = 128; n < 8192; n *= 2) EXPECT_LE(time(1024, n, 1024), time(1024, 2 * n, 1024));
}

TEST(Products, MeasuredRatesReplaceTheModel) {
  DeviceFigures d = plain_machine().device;
  d.products = {{"f32", "forward", 512, 512, 512, 1e10},
                {"f32", "forward", 2048, 2048, 2048, 4e10}};
  const auto rate = [&](int64_t n) {
    return 2.0 * static_cast<double>(n * n * n) / product_s({1, n, n, n, DType::kF32}, d);
  };
  EXPECT_NEAR(rate(512), 1e10, 2e7);
  EXPECT_NEAR(rate(1024), 2e10, 1e7);  // half-way in the logarithm
  EXPECT_NEAR(rate(2048), 4e10, 8e7);
}

}  // namespace
}  // namespace tessera::plan
