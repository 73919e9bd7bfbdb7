#include "train/resume.h"

#include <gtest/gtest.h>

#include "base/config.h"
#include "base/error.h"
#include "train/run_config.h"

namespace tessera {
namespace {

class ResumeChanges : public ::testing::Test {
 protected:
  ResumeChanges() {
    before_.model.layers = 6;
    before_.data.train = {{"wiki", 1.0}};
  }
  std::vector<ResumeChange> changes() const {
    return changes_since(to_tree(before_), to_tree(after_));
  }
  // The only change, as text; "(none)" and "(many)" otherwise.
  std::string only() const {
    const auto c = changes();
    return c.empty() ? "(none)" : c.size() > 1 ? "(many)" : to_string(c[0]);
  }
  RunConfig before_, after_ = before_;
  void SetUp() override { after_ = before_; }
};

TEST_F(ResumeChanges, TheSameFileHasNoChanges) { EXPECT_EQ(only(), "(none)"); }

TEST_F(ResumeChanges, ALongerScheduleIsTheSameRun) {
  after_.schedule.steps = 2000;
  EXPECT_EQ(only(), "schedule.steps 1000 -> 2000");
  EXPECT_FALSE(changes()[0].other_run);
  EXPECT_NO_THROW(refuse_another_run(changes(), false, "runs/x/checkpoints/7"));
}

TEST_F(ResumeChanges, WhereToStopAndHowToResumeAreNotOfTheRun) {
  after_.run.stop_after_steps = 5;
  after_.run.dump_gradients = "g";
  after_.checkpoint.resume = Resume::kRequired;
  after_.checkpoint.allow_changes = true;
  EXPECT_EQ(only(), "(none)");
}

TEST_F(ResumeChanges, AnotherModelDataOrSeedIsAnotherRun) {
  const auto is_other = [this](auto&& change) {
    after_ = before_;
    change(after_);
    const auto c = changes();
    return !c.empty() && c[0].other_run;
  };
  EXPECT_TRUE(is_other([](RunConfig& c) { c.model.layers = 12; }));
  EXPECT_TRUE(is_other([](RunConfig& c) { c.model.dropout = 0.1; }));
  EXPECT_TRUE(is_other([](RunConfig& c) { c.data.train = {{"code", 1.0}}; }));
  EXPECT_TRUE(is_other([](RunConfig& c) { c.data.train[0].weight = 2; }));
  EXPECT_TRUE(is_other([](RunConfig& c) { c.data.sequence_length = 64; }));
  EXPECT_TRUE(is_other([](RunConfig& c) { c.batch.global = 64; }));
  EXPECT_TRUE(is_other([](RunConfig& c) { c.run.seed = 5; }));
  EXPECT_FALSE(is_other([](RunConfig& c) { c.batch.micro = 8; }));
  EXPECT_FALSE(is_other([](RunConfig& c) { c.optimizer.learning_rate = 1; }));
  EXPECT_FALSE(is_other([](RunConfig& c) { c.layout.tensor = 2; }));
}

TEST_F(ResumeChanges, AnotherRunIsRefusedUnlessToldAndTheMessageSaysHow) {
  after_.model.layers = 12;
  after_.run.seed = 5;
  after_.schedule.steps = 2000;
  try {
    refuse_another_run(changes(), false, "runs/x/checkpoints/7");
    FAIL() << "no error";
  } catch (const Error& e) {
    const std::string m = e.what();
    EXPECT_NE(m.find("runs/x/checkpoints/7"), std::string::npos) << m;
    EXPECT_NE(m.find("model.layers 6 -> 12"), std::string::npos) << m;
    EXPECT_NE(m.find("run.seed 1234 -> 5"), std::string::npos) << m;
    EXPECT_EQ(m.find("schedule.steps"), std::string::npos) << m;
    EXPECT_NE(m.find("checkpoint.allow_changes=true"), std::string::npos) << m;
  }
  EXPECT_NO_THROW(refuse_another_run(changes(), true, "runs/x/checkpoints/7"));
}

TEST_F(ResumeChanges, AnImportedCheckpointHasNothingToCompareWith) {
  EXPECT_TRUE(changes_since(Tree::object(), to_tree(after_)).empty());
  EXPECT_TRUE(changes_since(Tree(), to_tree(after_)).empty());
}

TEST_F(ResumeChanges, AKeyOfANewerProgramIsNotAnotherRun) {
  Tree old = to_tree(before_);
  Tree model = Tree::object();
  model.set("layers", Tree(int64_t{6}));
  old.set("model", model);
  for (const ResumeChange& c : changes_since(old, to_tree(after_))) EXPECT_FALSE(c.other_run);
}

}  // namespace
}  // namespace tessera
