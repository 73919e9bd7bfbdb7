#include "data/training_data.h"

#include <algorithm>
#include <map>

#include "data/dataset_builder.h"
#include "tests/data/dataset_fixture.h"

namespace tessera::data {
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
  EXPECT_NEAR(data.most_read(1000).epochs, 700.0 / 124, 1e-9);
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
  EXPECT_TRUE(contains(message, prefix +
                                    ".bin: token 4 of document 7 (byte 148) is 11, outside the "
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
  EXPECT_TRUE(contains(error_of([] { TrainingData data({}); }), "data.train: is empty"));
  EXPECT_TRUE(
      contains(error_of([&] {
                 TrainingData data(
                     {.datasets = {{prefix, 0}}, .split = "", .part = 0, .sequence_length = 4});
               }),
               "has weight 0, expected a number above 0"));
}

struct Row {
  std::vector<int32_t> tokens, labels, positions, documents, source;
  explicit Row(const TrainingData& data)
      : tokens(static_cast<size_t>(data.row_tokens())),
        labels(tokens),
        positions(tokens),
        documents(tokens),
        source(static_cast<size_t>(data.row_source())) {}
  SampleRow view() { return {tokens, labels, positions, documents, source}; }
};

// Documents of lengths 1 to 12, all tokens different.
std::vector<std::vector<int32_t>> different_documents(int count) {
  std::vector<std::vector<int32_t>> documents;
  int32_t next = 100;
  for (int d = 0; d < count; ++d) {
    documents.emplace_back(static_cast<size_t>(1 + d * 7 % 12));
    for (int32_t& id : documents.back()) id = next++;
  }
  return documents;
}

TEST_F(TrainingDataTest, RowsKnowTheirDocuments) {
  const auto documents = different_documents(60);
  std::map<int32_t, size_t> document_of;
  for (size_t d = 0; d < documents.size(); ++d) {
    for (const int32_t id : documents[d]) document_of[id] = d;
  }
  DatasetSpec spec{.datasets = {{dataset("d", documents), 1}}, .sequence_length = 16, .seed = 3};
  for (const bool apart : {false, true}) {
    spec.intra_document_masking = apart;
    TrainingData data(spec);
    for (int64_t s = 0; s < 50; ++s) {
      Row row(data);
      data.read_row(s, row.view());
      std::vector<int32_t> ids(17);
      data.read(s, ids);
      for (size_t t = 0; t < 16; ++t) {
        EXPECT_EQ(row.tokens[t], ids[t]);
        const bool same = document_of[ids[t]] == document_of[ids[t + 1]];
        EXPECT_EQ(row.labels[t], apart && !same ? kIgnoredLabel : ids[t + 1]);
        const bool begins = t == 0 || document_of[ids[t]] != document_of[ids[t - 1]];
        const int32_t before = t == 0 ? -1 : row.documents[t - 1];
        EXPECT_EQ(row.documents[t], begins ? before + 1 : before);
        const bool anew = apart && begins;
        EXPECT_EQ(row.positions[t], anew ? 0 : t == 0 ? 0 : row.positions[t - 1] + 1);
      }
    }
  }
}

// Over an epoch every token is read once, but for the fewer than T + 1 that fill no sample.
TEST_F(TrainingDataTest, PackingLosesAndRepeatsNoToken) {
  const auto documents = different_documents(200);
  const std::string prefix = dataset("d", documents);
  DatasetSpec spec{.datasets = {{prefix, 1}}, .sequence_length = 16, .seed = 3};
  spec.intra_document_masking = true;
  TrainingData data(spec);
  const int64_t samples = (data.tokens() - 1) / 16;
  for (const int64_t epoch : {0, 1}) {
    std::map<int32_t, int> read;
    for (int64_t s = 0; s < samples; ++s) {
      Row row(data);
      data.read_row(epoch * samples + s, row.view());
      for (const int32_t id : row.tokens) ++read[id];
    }
    EXPECT_GT(std::ssize(read) + 17, data.tokens());
    for (const auto& [id, times] : read) EXPECT_EQ(times, 1) << id;
  }
}

TEST_F(TrainingDataTest, SpansAreTakenOutOfEverySample) {
  const auto documents = different_documents(400);
  DatasetSpec spec{.datasets = {{dataset("d", documents), 1}}, .sequence_length = 64, .seed = 3};
  spec.spans = SpanObjective{.how = {}, .ids = {32099, 1}, .sentinels = 100};
  TrainingData data(spec);
  EXPECT_EQ(data.row_source(), 64);
  EXPECT_EQ(data.row_tokens(), 14);
  EXPECT_EQ(data.sample_tokens(), 71);
  std::map<int32_t, int> read;
  const int64_t samples = (data.tokens() - 1) / 70;
  for (int64_t s = 0; s < samples; ++s) {
    Row row(data), again(data);
    data.read_row(s, row.view());
    EXPECT_EQ(row.source.back(), 1);
    EXPECT_EQ(row.labels.back(), 1);
    EXPECT_EQ(row.tokens[0], 0);
    EXPECT_TRUE(std::equal(row.labels.begin(), row.labels.end() - 1, row.tokens.begin() + 1));
    for (const auto* ids : {&row.source, &row.labels}) {
      for (const int32_t id : *ids) read[id] += id >= 100 && id < 30000;
    }
    TrainingData(spec).read_row(s, again.view());
    EXPECT_EQ(row.source, again.source);
  }
  int64_t once = 0;
  for (const auto& [id, times] : read) {
    EXPECT_LE(times, 1);
    once += times;
  }
  EXPECT_EQ(once, samples * 70);
  spec.spans->sentinels = 2;
  EXPECT_TRUE(contains(error_of([&] { TrainingData refused(spec); }), "the tokenizer has 2"));
}

TEST_F(TrainingDataTest, SharesFollowTheSizesOfTheSets) {
  DatasetSpec spec{.datasets = {{constant("a", 1, 160), 1}, {constant("b", 2, 10), 1}},
                   .sequence_length = 4,
                   .seed = 1};
  for (const auto& [exponent, share] : {std::pair{0.0, 0.5}, {0.25, 2.0 / 3}, {1.0, 16.0 / 17}}) {
    spec.size_exponent = exponent;
    TrainingData data(spec);
    int of_a = 0;
    for (int64_t s = 0; s < 1000; ++s) of_a += data.origin(s).dataset == 0;
    EXPECT_NEAR(of_a, 1000 * share, 1.01) << exponent;
  }
}

TEST_F(TrainingDataTest, TheMixtureChangesAtAToken) {
  const std::string a = constant("a", 1, 50), b = constant("b", 2, 50), c = constant("c", 3, 50);
  DatasetSpec spec{.datasets = {{a, 1}, {b, 1}}, .sequence_length = 4, .seed = 1};
  spec.stages = {{401, {{c, 3}, {a, 1}}}};
  TrainingData data(spec);
  ASSERT_EQ(data.datasets(), 3);
  EXPECT_EQ(data.prefix(2), c);
  int64_t of_a = 0, of_c = 0;
  for (int64_t s = 0; s < 201; ++s) {
    const SampleOrigin origin = data.origin(s);
    EXPECT_TRUE(s < 101 ? origin.dataset != 2 : origin.dataset != 1) << s;
    if (origin.dataset == 0) {
      EXPECT_EQ(origin.index, of_a++);
    }
    of_c += origin.dataset == 2;
  }
  EXPECT_EQ(of_c, 75);
  EXPECT_NEAR(data.most_read(201).epochs, static_cast<double>(of_a) / 124, 0.02);
  spec.stages.push_back({404, {{a, 1}}});
  EXPECT_TRUE(contains(error_of([&] { TrainingData refused(spec); }),
                       "does not begin after the previous one"));
  spec.stages = {{400, {}}};
  EXPECT_TRUE(contains(error_of([&] { TrainingData refused(spec); }), "has no dataset"));
  spec.stages = {{400, {{a, 1}, {a, 2}}}};
  EXPECT_TRUE(contains(error_of([&] { TrainingData refused(spec); }), "duplicate dataset"));
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
}  // namespace tessera::data
