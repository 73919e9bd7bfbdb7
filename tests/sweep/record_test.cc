#include "sweep/record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "base/error.h"
#include "sweep/trials.h"

namespace tessera::sweep {
namespace {

Definition definition() {
  Definition d;
  d.run = "run.yaml";
  d.keys = {"batch.micro=2"};
  d.hash = "0123";
  d.parameters = {*parse_parameter("a=1e-4..1e-2"), *parse_parameter("b=x,y")};
  d.seed = 3;
  d.eta = 2;
  d.score = "validation_loss";
  d.rungs = rungs_of(3, 8, {2, 1, 1});
  return d;
}

const std::vector<Point> kPoints = {{"0.001", "x"}, {"0.002", "y"}, {"0.01", "x"}};

class SweepFile : public testing::Test {
 protected:
  SweepFile() { std::filesystem::create_directories(folder_); }
  ~SweepFile() override { std::filesystem::remove_all(folder_); }

  Path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("sweep_record.{}", ::getpid());
  Path file_ = folder_ / "sweep.json";
};

TEST_F(SweepFile, KeepsResultsOfTheSameSweepOnly) {
  SweepRecord record = read_record(file_, definition(), kPoints);
  ASSERT_EQ(record.trials.size(), 3u);
  record.trials[0].results = {{4, 2.5}, {8, 2.25}};
  record.trials[0].outcome = Outcome::kFinished;
  record.trials[1].results = {{4, 3.5}};
  record.trials[1].outcome = Outcome::kStopped;
  record.trials[2].outcome = Outcome::kDiverged;
  write_record(file_, record);
  const SweepRecord again = read_record(file_, definition(), kPoints);
  EXPECT_EQ(to_json(as_tree(again)), to_json(as_tree(record)));
  EXPECT_EQ(again.ranking(), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(again.steps_taken(), 12);
  EXPECT_EQ(again.steps_in_full(), 24);
  Definition other = definition();
  other.seed = 4;
  EXPECT_THROW(read_record(file_, other, kPoints), Error);
  write_file(file_, "{\"sweep\": 1}");
  EXPECT_THROW(read_record(file_, definition(), kPoints), Error);
}

TEST_F(SweepFile, ATrialThatDivergedOrFailedIsLastWhateverItHadReached) {
  SweepRecord record = read_record(file_, definition(), kPoints);
  EXPECT_FALSE(record.best());
  record.trials[0].results = {{4, 2.5}, {8, 1.0}};
  record.trials[0].outcome = Outcome::kDiverged;
  record.trials[1].results = {{4, 2.5}, {8, 1.1}};
  record.trials[1].outcome = Outcome::kFailed;
  EXPECT_FALSE(record.best());
  EXPECT_EQ(as_tree(record).find("best"), nullptr);
  record.trials[2].results = {{4, 3.5}};
  record.trials[2].outcome = Outcome::kStopped;
  EXPECT_EQ(record.best(), 2u);
  EXPECT_EQ(record.ranking(), (std::vector<size_t>{2, 0, 1}));
}

TEST_F(SweepFile, TheTableHasTheBestFirstAndNoTimes) {
  SweepRecord record = read_record(file_, definition(), kPoints);
  record.trials[2].results = {{4, 2.5}};
  record.trials[1].results = {{4, 2.0}, {8, 1.5}};
  record.trials[1].outcome = Outcome::kFinished;
  EXPECT_EQ(table_of(record),
            "rank  trial    steps  validation_loss  outcome   keys\n"
            "   1    001        8           1.5000  finished  a=0.002 b=y\n"
            "   2    002        4           2.5000  waiting   a=0.01 b=x\n"
            "   3    000        0                –  waiting   a=0.001 b=x\n");
}

TEST(SweepScore, IsTheValidationLossOfTheRung) {
  const std::string lines =
      "{\"step\":9,\"loss\":4}\n{\"step\":10,\"loss\":2}\n"
      "{\"step\":5,\"name\":\"a\",\"validation_loss\":9}\n"
      "{\"step\":10,\"name\":\"a\",\"validation_loss\":1}\n"
      "{\"step\":10,\"name\":\"b\",\"validation_loss\":2}\n";
  EXPECT_EQ(score_of(lines, "validation_loss", 10), 1.5);
  EXPECT_EQ(score_of(lines, "validation_loss", 11), std::nullopt);
  EXPECT_EQ(score_of(lines, "loss", 10), 2);
  EXPECT_EQ(score_of("{\"step\":19,\"loss\":4}\n{\"step\":20,\"loss\":2}\n", "loss", 20), 3);
  EXPECT_EQ(score_of("{\"step\":1,\"loss\":null}\n", "loss", 1),
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tessera::sweep
