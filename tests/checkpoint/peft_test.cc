// Settings of a PEFT folder: those that are read, and those that are rejected by name.
#include "checkpoint/peft.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
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

}  // namespace
}  // namespace tessera::checkpoint
