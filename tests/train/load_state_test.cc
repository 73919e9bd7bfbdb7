#include "train/load_state.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/async_save.h"
#include "checkpoint/folders.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::train {
namespace {

// A checkpoint of tables of 40 rows, the one for words and the one for positions, and one more.
class LoadState : public testing::Test {
 protected:
  LoadState() {
    saved_.add("embed.position.weight", {40, 24}, 1);
    saved_.add("embed.weight|moment1", {40, 24}, 1);
    const Path folder = temporary_.path() / "saved";
    checkpoint::save(folder, checkpoint::sample_header(1), saved_.tensors());
    reader_ =
        std::make_unique<checkpoint::CheckpointReader>(checkpoint::find_latest(folder).found->path);
  }
  // The rows [first, last) of a table of `rows`, taken for a model of that many tokens.
  std::vector<float> load(const std::string& name, int64_t tokens, int64_t rows, int64_t columns,
                          int64_t first, int64_t last) {
    model::ModelConfig model;
    model.vocabulary = model.context = tokens;
    StateShard shard;
    shard.name = name;
    shard.role = name.find('|') == name.npos ? Role::kWeight : Role::kMoment1;
    shard.shape = {rows, columns};
    shard.begin = {first, 0};
    shard.end = {last, columns};
    std::vector<float> out(static_cast<size_t>((last - first) * columns), -7);
    load_shard(*reader_, shard, model, {out.data(), DType::kF32, {last - first, columns}});
    return out;
  }
  std::string refusal(const std::string& name, int64_t tokens, int64_t rows, int64_t columns) {
    try {
      load(name, tokens, rows, columns, 0, rows);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // Rows of the table of words as they were saved, zeros behind its 40.
  std::vector<float> wanted(int64_t first, int64_t last) const {
    std::vector<float> out;
    for (int64_t i = first * 24; i < last * 24; ++i)
      out.push_back(i < 40 * 24 ? saved_.values[0][static_cast<size_t>(i)] : 0.0F);
    return out;
  }

 private:
  checkpoint::TemporaryFolder temporary_{checkpoint::TemporaryFolder::quick()};
  checkpoint::SampleState saved_{1};
  std::unique_ptr<checkpoint::CheckpointReader> reader_;
};

TEST_F(LoadState, OtherPaddingOfTheVocabulary) {
  EXPECT_EQ(load("embed.weight", 37, 40, 24, 0, 40), wanted(0, 40));
  EXPECT_EQ(load("embed.weight", 37, 38, 24, 0, 38), wanted(0, 38));
  EXPECT_EQ(load("embed.weight", 37, 64, 24, 0, 64), wanted(0, 64));
  EXPECT_EQ(load("embed.weight", 37, 64, 24, 32, 64), wanted(32, 64));  // as a rank has them
  EXPECT_EQ(load("embed.weight", 37, 64, 24, 48, 64), wanted(48, 64));
}

TEST_F(LoadState, FewerPositions) {
  EXPECT_EQ(load("embed.position.weight", 16, 16, 24, 0, 16).size(), 16U * 24U);
  EXPECT_NE(refusal("embed.position.weight", 48, 48, 24), "");
}

TEST_F(LoadState, NoCornerOfALargerModelIsTaken) {
  EXPECT_NE(refusal("embed.weight", 37, 40, 16).find("has the shape [40, 24], expected [40, 16]"),
            std::string::npos);
  EXPECT_NE(refusal("embed.weight", 41, 64, 24), "");          // tokens that have no row
  EXPECT_NE(refusal("embed.weight|moment1", 37, 38, 24), "");  // a resumed run is the same model
  EXPECT_NE(refusal("nothing", 37, 40, 24).find("has no tensor"), std::string::npos);
}

}  // namespace
}  // namespace tessera::train
