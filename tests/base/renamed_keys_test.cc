#include "base/renamed_keys.h"

#include <gtest/gtest.h>

#include "base/config.h"

namespace tessera {
namespace {

enum class Masks : uint8_t { kRegenerate, kStore };
constexpr const char* enum_names(Masks) { return "regenerate|store"; }
enum class Attention : uint8_t { kFused, kUnfused };
constexpr const char* enum_names(Attention) { return "fused|unfused"; }

struct Compiler {
  Masks dropout_masks = Masks::kRegenerate;
  Attention attention = Attention::kFused;
  static void fields(auto& self, auto&& visit) {
    visit("dropout_masks", self.dropout_masks, "");
    visit("attention", self.attention, "");
  }
};
struct Schedule {
  double min_lr_ratio = 0;
  static void fields(auto& self, auto&& visit) { visit("min_lr_ratio", self.min_lr_ratio, ""); }
};
struct Config {
  Compiler compiler;
  Schedule schedule;
  static void fields(auto& self, auto&& visit) {
    visit("compiler", self.compiler, "");
    visit("schedule", self.schedule, "");
  }
};

std::string error_of(const std::string& yaml) {
  Config c;
  SourceLocations places;
  try {
    read_fields(fields_of(c), parse_yaml(yaml, "run.yaml"), "run.yaml", places);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(RenamedKeys, AnOldKeyIsAnErrorThatNamesTheNewOne) {
  EXPECT_EQ(error_of("schedule:\n  floor: 0.1\n"),
            "run.yaml:2:3: unknown key 'schedule.floor' (renamed): use schedule.min_lr_ratio");
  EXPECT_EQ(error_of("compiler: { masks: kept }\n"),
            "run.yaml:1:13: unknown key 'compiler.masks' (renamed): use compiler.dropout_masks "
            "(drawn is now regenerate, kept is now store)");
}

TEST(RenamedKeys, AnOldValueIsAnErrorThatNamesTheNewOne) {
  EXPECT_EQ(error_of("compiler: { attention: materialised }\n"),
            "run.yaml:1:24: compiler.attention: found the text 'materialised', expected one of "
            "fused, unfused ('materialised' is now 'unfused')");
  EXPECT_EQ(error_of("compiler: { dropout_masks: kept }\n"),
            "run.yaml:1:28: compiler.dropout_masks: found the text 'kept', expected one of "
            "regenerate, store ('kept' is now 'store')");
  EXPECT_EQ(error_of("compiler: { attention: none }\n"),
            "run.yaml:1:24: compiler.attention: found the text 'none', expected one of fused, "
            "unfused");
}

TEST(RenamedKeys, AnOldKeyOnTheCommandLineIsAnErrorToo) {
  Config c;
  SourceLocations places;
  const std::vector<Field> fields = fields_of(c);
  try {
    read_override(fields, parse_override("schedule.floor=0.1"), places);
    ADD_FAILURE() << "read";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("unknown key 'schedule.floor' (renamed): use "
                                         "schedule.min_lr_ratio"),
              std::string::npos)
        << e.what();
  }
}

// Names that are not those of a field of this file get no such advice.
TEST(RenamedKeys, OtherFilesAreNotConcerned) {
  EXPECT_EQ(error_of("batch: { ramp: [1] }\n").find("renamed"), std::string::npos);
  EXPECT_EQ(error_of("floor: 1\n").find("renamed"), std::string::npos);
}

TEST(RenamedKeys, AStoredConfigurationGetsThePresentNames) {
  const Tree old = parse_json(
      R"({"run": {"seed": 1, "products": "proposed"}, "schedule": {"floor": 0.1, "floor_rule": )"
      R"("blend"}, "model": {"rotary_share": 0.5, "rotary_scale": {"factor": 8, "low": 1, )"
      R"("high": 4, "context": 64}}, "optimizer": {"decay": "all", "groups": [{"match": ["a"], )"
      R"("decay": "matrices", "least_scale": 0.5}]}, "compiler": {"sent": "kept", "accumulate": )"
      R"("fused", "communication": "sums", "attention": "materialised", "bucket_bytes": 7}})",
      "index");
  EXPECT_EQ(
      to_json(with_present_names(old)),
      R"({"run":{"seed":1,"kernel_selection":"heuristic"},"schedule":{"min_lr_ratio":0.1,)"
      R"("min_lr_mode":"interpolate"},"model":{"rotary_pct":0.5,"rope_scaling":{"factor":8,)"
      R"("low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":64}},)"
      R"("optimizer":{"weight_decay_applies_to":"all","groups":[{"match":["a"],)"
      R"("weight_decay_applies_to":"matrices","min_parameter_scale":0.5}]},"compiler":)"
      R"({"deallocate_pipeline_outputs":false,"fuse_grad_accumulation":true,"grad_reduce_dtype":)"
      R"("accum","attention":"unfused","bucket_bytes":7}})");
  // Present names stay as they are.
  EXPECT_EQ(to_json(with_present_names(with_present_names(old))), to_json(with_present_names(old)));
}

TEST(RenamedKeys, TheModelOfAHeaderIsASectionOfItsOwn) {
  const Tree old = parse_json(R"({"layers": 2, "rotary_base": 500000})", "index");
  EXPECT_EQ(to_json(with_present_names(old, "model")), R"({"layers":2,"rope_theta":500000})");
}

}  // namespace
}  // namespace tessera
