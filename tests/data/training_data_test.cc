#include "data/training_data.h"

#include <algorithm>

#include "data/dataset_builder.h"
#include "tests/data/dataset_fixture.h"

namespace tessera {
namespace {

class TrainingDataTest : public DatasetFixture {
 protected:
  std::string constant(const std::string& name, int32_t id, int documents) const {
    return dataset(name, std::vector<std::vector<int32_t>>(static_cast<size_t>(documents),
                                                           std::vector<int32_t>(10, id)));
  }
};

TEST_F(TrainingDataTest, BlendsByWeight) {
  TrainingData data({.datasets = {{constant("a", 1, 50), 7}, {constant("b", 2, 50), 3}},
                     .split = "",
                     .part = 0,
                     .sequence_length = 4,
                     .seed = 1,
                     .vocabulary = 10});
  std::vector<int32_t> ids(5);
  int of_b = 0;
  for (int64_t s = 0; s < 1000; ++s) {
    data.read(s, ids);
    EXPECT_EQ(ids, std::vector<int32_t>(5, ids[0]));
    EXPECT_EQ(data.origin(s).dataset, ids[0] - 1);
    of_b += ids[0] == 2;
    EXPECT_NEAR(of_b, 0.3 * static_cast<double>(s + 1), 1);
  }
  EXPECT_EQ(data.tokens(), 1000);
  EXPECT_NEAR(data.epochs(1000), 700.0 / 124, 1e-9);
  EXPECT_EQ(data.origin(999).epoch, data.origin(999).index / 124);
}

TEST_F(TrainingDataTest, IdsBeyondTheVocabularyAreNamed) {
  std::vector<std::vector<int32_t>> documents(20, std::vector<int32_t>(10, 3));
  documents[7][4] = 11;
  const std::string prefix = dataset("d", documents);
  DatasetSpec spec{.datasets = {{prefix, 1}},
                   .split = "",
                   .part = 0,
                   .sequence_length = 4,
                   .seed = 1,
                   .vocabulary = 11};
  const auto read_all = [](const DatasetSpec& s) {
    TrainingData data(s);
    std::vector<int32_t> ids(5);
    for (int64_t i = 0; i < 60; ++i) data.read(i, ids);
  };
  const std::string message = error_of([&] { read_all(spec); });
  EXPECT_TRUE(contains(message, prefix + ".bin: token 4 of document 7 (byte 148) is 11, beyond the "
                                         "vocabulary of 11"))
      << message;
  spec.vocabulary = 12;
  EXPECT_EQ(error_of([&] { read_all(spec); }), "");
  spec.vocabulary = 11;
  const std::string validation = error_of([&] {
    const ValidationData data(spec);
    std::vector<int32_t> ids(5);
    for (int64_t i = 0; i < data.samples(); ++i) data.read(i, ids);
  });
  EXPECT_TRUE(contains(validation, "token 4 of document 7")) << validation;
}

TEST_F(TrainingDataTest, BadSpecsAreRefused) {
  const std::string prefix = constant("a", 1, 5);
  EXPECT_TRUE(contains(error_of([] { TrainingData data({}); }), "data.train: names no dataset"));
  EXPECT_TRUE(
      contains(error_of([&] {
                 TrainingData data(
                     {.datasets = {{prefix, 0}}, .split = "", .part = 0, .sequence_length = 4});
               }),
               "has weight 0, wanted a number above 0"));
}

TEST_F(TrainingDataTest, ValidationReadsEachTokenOnceInOrder) {
  std::vector<std::vector<int32_t>> documents;
  for (int32_t d = 0; d < 10; ++d) documents.push_back({10 * d, 10 * d + 1, 10 * d + 2});
  const std::string prefix = dataset("d", documents);
  for (const int64_t t : {1, 4, 29, 30, 100}) {
    const ValidationData data({.datasets = {{prefix, 1}},
                               .split = "",
                               .part = 0,
                               .sequence_length = t,
                               .seed = 0,
                               .vocabulary = 100});
    EXPECT_EQ(data.predicted_tokens(), 29);
    EXPECT_EQ(data.samples(), (29 + t - 1) / t);
    std::vector<int32_t> predicted, ids(static_cast<size_t>(t) + 1);
    for (int64_t s = 0; s < data.samples(); ++s) {
      const auto n = static_cast<size_t>(data.read(s, ids));
      predicted.insert(predicted.end(), ids.begin() + 1, ids.begin() + static_cast<int64_t>(n));
    }
    ASSERT_EQ(predicted.size(), 29u);
    EXPECT_EQ(predicted[0], 1);
    EXPECT_TRUE(std::is_sorted(predicted.begin(), predicted.end()));
    EXPECT_EQ(data.read(data.samples(), ids), 0);
  }
}

TEST_F(TrainingDataTest, ValidationKnowsItsBytesWithAndWithoutPrefixJson) {
  const ByteTokenizer tokenizer;
  BuildOptions options;
  options.inputs = {put("a.txt", "abc\n\ndefg")};
  options.documents.split = Split::kParagraphs;
  options.out = path("d");
  build_dataset(tokenizer, options, nullptr);
  const DatasetSpec spec{.datasets = {{path("d"), 1}},
                         .split = "",
                         .part = 0,
                         .sequence_length = 4,
                         .seed = 0,
                         .vocabulary = 0};
  EXPECT_EQ(ValidationData(spec).text_bytes(tokenizer), 7);
  std::filesystem::remove(path("d.json"));
  EXPECT_EQ(ValidationData(spec).text_bytes(tokenizer), 7);
}

}  // namespace
}  // namespace tessera
