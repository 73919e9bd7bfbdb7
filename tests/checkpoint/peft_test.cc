// Settings of a PEFT folder: those that are read, and those that are rejected by name. Folders that
// are damaged, or of another model, end in an Error.
#include "checkpoint/peft.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "tests/base/tree_mutator.h"
#include "tests/checkpoint/hf_folder.h"
#include "tests/checkpoint/peft_folder.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

// Returns the settings that a folder has with these members of adapter_config.json.
AdapterSettings settings_of(const std::string& members) {
  const TemporaryFolder folder;
  write_file(folder.path() / "adapter_config.json", "{" + members + "}");
  return read_peft_settings(folder.path());
}

std::string settings_error(const std::string& members) {
  try {
    settings_of(R"("target_modules": ["q_proj"], )" + members);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Peft, SettingsAreRead) {
  const AdapterSettings plain = settings_of(R"("target_modules": ["v_proj", "q_proj"])");
  EXPECT_EQ(plain.rank, 8);
  EXPECT_EQ(plain.scale(), 1);
  EXPECT_EQ(plain.targets, (std::vector<std::string>{"v_proj", "q_proj"}));
  EXPECT_FALSE(plain.dora());
  const AdapterSettings other = settings_of(
      R"("peft_type": "LORA", "r": 4, "lora_alpha": 6, "use_rslora": true, "use_dora": true,
         "target_modules": "all-linear", "modules_to_save": null, "rank_pattern": {},
         "bias": "none", "init_lora_weights": "gaussian")");
  EXPECT_EQ(other.rank, 4);
  EXPECT_EQ(other.scale(), 3);
  EXPECT_EQ(other.targets, std::vector<std::string>{"all-linear"});
  EXPECT_TRUE(other.dora());
}

// PEFT names a parameter by the last components of its name.
TEST(Peft, ParametersOfExpertsAreTargets) {
  EXPECT_EQ(settings_of(R"("target_modules": ["q_proj"], "target_parameters":
                            ["mlp.experts.gate_up_proj", "down_proj",
                             "model.layers.0.mlp.experts.gate_up_proj"])")
                .targets,
            (std::vector<std::string>{"q_proj", "mlp.experts.gate_up_proj", "experts.down_proj"}));
  EXPECT_EQ(
      settings_of(R"("target_modules": [], "target_parameters": ["experts.down_proj"])").targets,
      std::vector<std::string>{"experts.down_proj"});
}

TEST(Peft, WhatIsNotComputedIsRejectedByItsName) {
  for (const char* given : {R"("peft_type": "IA3")", R"("bias": "all")", R"("lora_bias": true)",
                            R"("modules_to_save": ["lm_head"])", R"("rank_pattern": {"q_proj": 4})",
                            R"("alpha_pattern": {"q_proj": 4})", R"("layers_to_transform": [1])",
                            R"("init_lora_weights": "pissa")", R"("init_lora_weights": "loftq")",
                            R"("a_later_setting": 3)"}) {
    const std::string text = given, key = text.substr(1, text.find('"', 1) - 1);
    EXPECT_NE(settings_error(given).find("has " + key + " = "), std::string::npos)
        << given << ": " << settings_error(given);
  }
  EXPECT_NE(settings_error(R"("r": 0)").find("has r = 0"), std::string::npos);
  EXPECT_NE(settings_error(R"("lora_alpha": -1)").find("lora_alpha = -1"), std::string::npos);
  EXPECT_THROW(settings_of(""), Error);
  EXPECT_THROW(settings_of(R"("target_modules": ".*q_proj")"), Error);
}

// A folder with adapters of a tiny model, whose files a test changes.
class DamagedPeft : public testing::Test {
 protected:
  DamagedPeft() : model_(small(model::Family::kLlama)) { write({}); }

  void write(const PeftFolder& f) { write_peft(folder_.path(), model_, f); }
  std::string get(const char* name) const { return read_file(folder_.path() / name); }
  void put(const char* name, const std::string& bytes) const {
    write_file(folder_.path() / name, bytes);
  }
  StoredAdapters read() const { return read_adapters(folder_.path(), model_); }
  void expect_fault(const std::vector<std::string>& parts) const {
    try {
      read();
      ADD_FAILURE() << "accepted, expected " << parts[0];
    } catch (const Error& e) {
      const std::string message = e.what();
      for (const std::string& part : parts)
        EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    }
  }

  static constexpr const char* kConfig = "adapter_config.json";
  static constexpr const char* kWeights = "adapter_model.safetensors";
  TemporaryFolder folder_;
  model::ModelConfig model_;
};

TEST_F(DamagedPeft, IsWholeFirst) {
  const StoredAdapters adapters = read();
  EXPECT_EQ(adapters.settings.rank, 2);
  EXPECT_EQ(adapters.tensors.size(), 8u);  // A and B of q and v in two layers
  write({.dtype = DType::kBF16});
  EXPECT_EQ(read().tensors.at("layer1.attn.qkv.q.lora_b").values,
            adapters.tensors.at("layer1.attn.qkv.q.lora_b").values);
  write({.dora = true});
  EXPECT_EQ(read().tensors.size(), 12u);
  // PEFT names each module of a small model by itself.
  write({});
  put(kConfig,
      peft_config(
          {.targets = {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj",
                       "model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"}}));
  EXPECT_EQ(read().settings.targets,
            (std::vector<std::string>{"self_attn.q_proj", "self_attn.v_proj"}));
  EXPECT_EQ(read().tensors.size(), 8u);
}

TEST_F(DamagedPeft, OfAnotherModelIsRejectedWithWhatDiffers) {
  model::ModelConfig wide = model_;
  wide.hidden = 48;
  wide.heads = 4;
  wide.head_width = 0;
  write_peft(folder_.path(), wide, {.base = "wide-7b"});
  expect_fault({kWeights, "not the adapters of [\"q_proj\",\"v_proj\"] in this model",
                "base_model_name_or_path is \"wide-7b\"", "is F32 [2, 48], expected [2, 24]",
                "Use the model that they were trained on"});
  model::ModelConfig deep = model_;
  deep.layers = 3;
  write_peft(folder_.path(), deep, {});
  expect_fault({"model.layers.2.self_attn.q_proj.lora_A.weight: not an adapter of this model"});
  deep.layers = 1;
  write_peft(folder_.path(), deep, {});
  expect_fault({"model.layers.1.self_attn.v_proj.lora_B.weight: missing, expected [12, 2]"});
  write({});
  put(kConfig, peft_config({.targets = {"q_proj", "v_proj", "query_key_value"}}));
  expect_fault({"'query_key_value' is not a module"});
  put(kConfig, peft_config({.targets = {"q_proj"}}));
  expect_fault({"model.layers.0.self_attn.v_proj.lora_A.weight: not an adapter of this model"});
  put(kConfig, peft_config({.rank = 3}));
  expect_fault({"is F32 [2, 24], expected [3, 24]"});
  put(kConfig, peft_config({.dora = true}));
  expect_fault({"q_proj.lora_magnitude_vector: missing, expected [24]"});
  for (const int64_t rank : {int64_t{25}, int64_t{1} << 53}) {
    put(kConfig, peft_config({.rank = rank}));
    expect_fault({fmt::format("the rank is {}, expected at most", rank), "q_proj"});
  }
}

TEST_F(DamagedPeft, FilesAndTypesAreCheckedBeforeTheyAreUsed) {
  const std::string weights = get(kWeights);
  for (const size_t bytes : {size_t{0}, size_t{7}, size_t{8}, size_t{100}, weights.size() - 1}) {
    put(kWeights, weights.substr(0, bytes));
    expect_fault({kWeights});
  }
  std::string other = weights;
  other.replace(other.find("\"F32\""), 5, "\"I32\"");
  put(kWeights, other);
  expect_fault({"is I32", "in a floating-point type"});
  std::string nan = weights;
  nan.replace(nan.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
  put(kWeights, nan);
  EXPECT_THROW(read(), NumericError);
  std::filesystem::remove(folder_.path() / kWeights);
  expect_fault({"has no adapter_model.safetensors", "safe_serialization=True"});
  put(kWeights, weights);
  for (
      const char* config :
      {"", "[]", "3", "{\"r\": 2", R"({"r": 2})", R"({"r": "2", "target_modules": ["q_proj"]})",
       R"({"r": 2.5, "target_modules": ["q_proj"]})", R"({"r": 2, "target_modules": 3})",
       R"({"r": 2, "target_modules": [3]})", R"({"r": 2, "target_modules": []})",
       R"({"r": 2, "target_modules": ["q_proj"], "lora_alpha": []})",
       R"({"r": 2, "target_modules": ["q_proj"], "use_dora": "yes"})",
       R"({"r": -2, "target_modules": ["q_proj"]})",
       R"({"r": 2, "target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": 3, "x": 1})"}) {
    put(kConfig, config);
    expect_fault({kConfig});
  }
}

// Changes the header of a safetensors file as an attacker would, and keeps its length field right.
std::string with_changed_header(const std::string& file, TreeMutator& mutator) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, file.data(), sizeof bytes);
  Tree header = parse_json(file.substr(8, bytes), "header");
  mutator.change(header);
  const std::string text = to_json(header), data = file.substr(8 + bytes);
  bytes = text.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &bytes, sizeof bytes);
  return out + text + data;
}

// TESSERA_MUTATIONS=20000 runs more of them.
TEST_F(DamagedPeft, ChangedFoldersEndInAnError) {
  write({.dora = true});
  const std::string weights = get(kWeights), config = get(kConfig);
  const char* const asked = std::getenv("TESSERA_MUTATIONS");
  const int count = asked != nullptr ? std::atoi(asked) : 600;
  TreeMutator mutator(23);
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    std::string changed = weights;
    Tree settings = parse_json(config, "config");
    switch (i % 4) {
      case 0:
        changed.resize(mutator.pick(changed.size()));
        break;
      case 1:
        for (int n = 0; n < 3; ++n)
          changed[mutator.pick(changed.size())] = static_cast<char>(mutator.pick(256));
        break;
      case 2:
        changed = with_changed_header(weights, mutator);
        break;
      default:
        for (size_t n = 1 + mutator.pick(2); n > 0; --n) mutator.change(settings);
    }
    put(kWeights, changed);
    put(kConfig, to_json(settings));
    try {
      const StoredAdapters adapters = read();
      ++accepted;
      for (const auto& [name, t] : adapters.tensors)
        ASSERT_EQ(static_cast<size_t>(t.shape.elements()), t.values.size()) << i << ": " << name;
    } catch (const Error& e) {
      ASSERT_NE(e.what()[0], '\0') << i;
    }
  }
  std::printf("%d of %d accepted\n", accepted, count);
  EXPECT_LT(accepted, count / 2);
  EXPECT_GT(accepted, 0);  // changed values of the adapters, names that have no meaning
}

}  // namespace
}  // namespace tessera::checkpoint
