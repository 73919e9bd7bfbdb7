#include "data/indexed_dataset.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "data/samples.h"
#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

using IndexedDatasetTest = DatasetFixture;

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

TEST_F(IndexedDatasetTest, WritesMegatronsBytes) {
  const std::string prefix = dataset("d", {{1, 2, 3}, {4, 5}});
  EXPECT_EQ(
      hex(read_file(prefix + ".idx")),
      "4d4d494449445800000100000000000000080200000000000000030000000000000003000000020000000000"
      "0000000000000600000000000000000000000000000001000000000000000200000000000000");
  EXPECT_EQ(hex(read_file(prefix + ".bin")), "01000200030004000500");
}

TEST_F(IndexedDatasetTest, TypeFollowsTheVocabulary) {
  EXPECT_EQ(dtype_for_vocabulary(65499), DType::kU16);
  EXPECT_EQ(dtype_for_vocabulary(65500), DType::kI32);
}

TEST_F(IndexedDatasetTest, ReadsWhatItWrote) {
  for (const DType type : {DType::kU16, DType::kI32}) {
    std::vector<std::vector<int32_t>> documents;
    for (int d = 0; d < 200; ++d) {  // every third one is empty
      std::vector<int32_t> ids;
      for (int i = 0; i < d % 3 * 37; ++i) ids.push_back((d * 1009 + i) % 65536);
      documents.push_back(ids);
    }
    const IndexedDataset data(dataset("d", documents, type));
    EXPECT_EQ(data.dtype(), type);
    ASSERT_EQ(data.sequences(), 200);
    EXPECT_EQ(data.documents(), 200);
    int64_t token = 0;
    for (int64_t s = 0; s < 200; ++s) {
      const auto& want = documents[static_cast<size_t>(s)];
      ASSERT_EQ(data.length(s), static_cast<int64_t>(want.size()));
      EXPECT_EQ(data.first_token(s), token);
      EXPECT_EQ(data.first_sequence(s), s);
      std::vector<int32_t> got(want.size());
      data.read(data.first_token(s), got);
      EXPECT_EQ(got, want);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(data.sequence_of(token++), s);
    }
    EXPECT_EQ(data.tokens(), token);
  }
}

TEST_F(IndexedDatasetTest, ManyDocumentsWaitInAFile) {
  constexpr int kDocuments = 200'000;  // more than one buffer of lengths
  IndexedDatasetWriter writer(path("d"), DType::kU16);
  std::vector<int32_t> ids;
  for (int d = 0; d < kDocuments; ++d) {
    ids.assign(static_cast<size_t>(d % 5), d % 1000);
    writer.add_document(ids);
  }
  EXPECT_FALSE(std::filesystem::exists(path("d.lengths.part")));
  writer.commit("{}");
  const IndexedDataset data(path("d"));
  ASSERT_EQ(data.sequences(), kDocuments);
  for (int d = 0; d < kDocuments; ++d) ASSERT_EQ(data.length(d), d % 5);
}

TEST_F(IndexedDatasetTest, NothingIsLeftWithoutCommit) {
  dataset("d", {{1}});
  const auto before = snapshot();
  {
    IndexedDatasetWriter writer(path("d"), DType::kI32);
    writer.add_document(std::vector<int32_t>{1, 2, 3});
  }
  EXPECT_EQ(snapshot(), before);
}

// A file size limit stands for a full disk: the system call fails in the same place.
TEST_F(IndexedDatasetTest, AFullDiskChangesNothing) {
  dataset("d", {{1}});
  const auto before = snapshot();
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {rlim_t{1} << 20, rlim_t{1} << 12}) {  // in the data, in the index
    const rlimit small{limit, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string message = error_of([&] {
      IndexedDatasetWriter writer(path("d"), DType::kU16);
      const std::vector<int32_t> ids(limit > 4096 ? 100'000 : 0, 7);
      for (int i = 0; i < 1000; ++i) writer.add_document(ids);
      writer.commit("{}");
    });
    setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_TRUE(contains(message, limit > 4096 ? "d.bin: cannot be written: File too large"
                                               : "d.idx: cannot be written: File too large"))
        << message;
    EXPECT_EQ(snapshot(), before);
  }
  signal(SIGXFSZ, SIG_DFL);
}

// Each fault of a file, and what the message must say.
struct Fault {
  const char* name;
  std::function<void(std::string& idx, std::string& bin)> damage;
  std::string wanted;
};

void poke(std::string& bytes, size_t at, auto value) {
  std::memcpy(&bytes[at], &value, sizeof value);
}

TEST_F(IndexedDatasetTest, SaysWhatIsWrongWithADamagedFile) {
  using S = std::string&;
  const std::vector<Fault> faults = {
      {"empty", [](S idx, S) { idx.clear(); }, "has 0 bytes, fewer than the 34 of its header"},
      {"magic", [](S idx, S) { idx[0] = 'X'; }, "does not start with 'MMIDIDX'"},
      {"old", [](S idx, S) { idx.replace(0, 8, std::string("TNTIDX\0\0", 8)); }, "old format"},
      {"version", [](S idx, S) { poke(idx, 9, uint64_t{2}); }, "byte 9: version 2, expected 1"},
      {"float", [](S idx, S) { idx[17] = 6; }, "byte 17: type code 6, expected one for token ids"},
      {"cut", [](S idx, S) { idx.resize(idx.size() - 1); },
       "has 2 sequences and 3 document entries, which need more than the 81 bytes"},
      {"huge", [](S idx, S) { poke(idx, 18, uint64_t{1} << 61); }, "has 2305843009213693952 seq"},
      {"huge documents", [](S idx, S) { poke(idx, 26, ~uint64_t{0}); }, "need more than the 82"},
      {"modes", [](S idx, S) { idx += "ab"; },
       "2 bytes follow the content that the header describes"},
      {"length", [](S idx, S) { poke(idx, 38, int32_t{-2}); }, "byte 38: sequence 1 has length -2"},
      {"offset", [](S idx, S) { poke(idx, 50, int64_t{8}); },
       "byte 50: sequence 1 starts at byte 8 of the .bin, expected 6, the sum of the lengths"},
      {"documents", [](S idx, S) { poke(idx, 66, int64_t{3}); }, "byte 66: document entry 1 is 3"},
      {"last", [](S idx, S) { poke(idx, 74, int64_t{1}); }, "document entry 2 is 1, expected 2"},
      {"first", [](S idx, S) { poke(idx, 58, int64_t{1}); }, "document entry 0 is 1, expected 0"},
      {"short data", [](S, S bin) { bin.resize(9); }, "has 9 bytes, but"},
      {"long data", [](S, S bin) { bin += "xx"; }, "do not match"},
  };
  for (const Fault& fault : faults) {
    const std::string prefix = dataset("d", {{1, 2, 3}, {4, 5}});
    std::string idx = read_file(prefix + ".idx"), bin = read_file(prefix + ".bin");
    fault.damage(idx, bin);
    put("d.idx", idx);
    put("d.bin", bin);
    const auto before = snapshot();
    const std::string message = error_of([&] { IndexedDataset data(prefix); });
    EXPECT_TRUE(contains(message, fault.wanted)) << fault.name << ": " << message;
    EXPECT_TRUE(contains(message, prefix)) << message;
    EXPECT_EQ(snapshot(), before);
  }
}

TEST_F(IndexedDatasetTest, MissingFilesAreNamed) {
  EXPECT_TRUE(contains(error_of([&] { IndexedDataset d(path("none")); }), "none.idx"));
  const std::string prefix = dataset("d", {{1}});
  std::filesystem::remove(prefix + ".bin");
  EXPECT_TRUE(contains(error_of([&] { IndexedDataset d(prefix); }), "d.bin"));
}

// A sparse .bin of 3 GiB: offsets beyond 2 GiB are read where they point.
TEST_F(IndexedDatasetTest, OffsetsBeyondTwoGib) {
  constexpr int64_t kEach = int64_t{1} << 28, kDocuments = 6;  // of u16: 512 MiB each
  std::string idx(34, '\0');
  std::memcpy(idx.data(), "MMIDIDX\0\0", 9);
  poke(idx, 9, uint64_t{1});
  idx[17] = 8;
  poke(idx, 18, kDocuments);
  poke(idx, 26, kDocuments + 1);
  const auto append = [&](auto v) { idx.append(reinterpret_cast<const char*>(&v), sizeof v); };
  for (int64_t d = 0; d < kDocuments; ++d) append(static_cast<int32_t>(kEach));
  for (int64_t d = 0; d < kDocuments; ++d) append(d * kEach * 2);
  for (int64_t d = 0; d <= kDocuments; ++d) append(d);
  put("big.idx", idx);
  put("big.bin", "");
  std::filesystem::resize_file(path("big.bin"), static_cast<uintmax_t>(kDocuments * kEach * 2));
  const IndexedDataset data(path("big"));
  EXPECT_EQ(data.tokens(), kDocuments * kEach);
  EXPECT_EQ(data.sequence_of(5 * kEach), 5);
  std::vector<int32_t> ids(4, -1);
  data.read(6 * kEach - 4, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 0, 0, 0}));
}

// Lengths that are not held in memory give the same as those that are.
TEST_F(IndexedDatasetTest, ReadsLengthsWhenTheyAreNeeded) {
  std::vector<std::vector<int32_t>> documents;
  for (int d = 0; d < 200; ++d) documents.emplace_back(static_cast<size_t>(d * 7 % 13), d);
  const IndexedDataset held(dataset("d", documents)), unheld(path("d"), 0);
  EXPECT_EQ(held.identity(), unheld.identity());
  for (int64_t s = 0; s < 200; ++s) {
    EXPECT_EQ(held.length(s), unheld.length(s));
    EXPECT_EQ(held.first_token(s), unheld.first_token(s));
    if (held.length(s) > 0) {
      EXPECT_EQ(unheld.sequence_of(unheld.first_token(s)), s);
    }
  }
  SampleOrder one(held, {3, 190}, 16, 7), other(unheld, {3, 190}, 16, 7);
  std::vector<int32_t> a(17), b(17);
  for (int64_t i = 0; i < 2 * one.samples_per_epoch(); ++i) {
    one.read(i, a);
    other.read(i, b);
    ASSERT_EQ(a, b) << i;
  }
}

TEST_F(IndexedDatasetTest, M9_ACutFileIsAnErrorWithItsPlace) {
  std::vector<int32_t> ids(4);
  const std::string prefix = dataset("d", {std::vector<int32_t>(3000, 1), {4, 5}});
  const IndexedDataset data(prefix);
  std::filesystem::resize_file(prefix + ".bin", 1000);
  const std::string cut = error_of([&] { data.read(2000, ids); });
  EXPECT_TRUE(contains(cut, "d.bin: byte 4000 is past its end: it had 6004 bytes")) << cut;
  // Data that is still there is rejected too: it may be of another build.
  EXPECT_TRUE(contains(error_of([&] { data.require_unchanged(); }), "changed while in use"));
}

TEST_F(IndexedDatasetTest, M9_OtherContentIsNoticedAndATouchedFilePasses) {
  const std::string prefix = dataset("d", {std::vector<int32_t>(3000, 1), {4, 5}});
  const IndexedDataset data(prefix);
  const auto later = std::filesystem::last_write_time(prefix + ".bin") + std::chrono::hours(1);
  std::filesystem::last_write_time(prefix + ".bin", later);
  EXPECT_NO_THROW(data.require_unchanged());
  std::FILE* file = std::fopen((prefix + ".bin").c_str(), "r+b");
  std::fputc(9, file);
  std::fclose(file);
  EXPECT_TRUE(contains(error_of([&] { data.require_unchanged(); }), "d.bin: was changed while in"));
}

// An index that changes under a reader that does not hold it: an Error, or data as at the start.
TEST_F(IndexedDatasetTest, M9_AChangedIndexIsNoInternalError) {
  std::vector<std::vector<int32_t>> documents;
  for (int d = 0; d < 300; ++d) documents.emplace_back(static_cast<size_t>(1 + d * 7 % 13), d);
  for (const int64_t held_sequences : {0, 1000}) {
    const std::string prefix = dataset("d", documents);
    const std::string whole = read_file(prefix + ".idx");
    const IndexedDataset data(prefix, held_sequences);
    SampleOrder order(data, {0, data.sequences()}, 16, 7);
    std::vector<int32_t> ids(17);
    order.read(0, ids);
    for (const int value : {0x00, 0x01, 0x7f, 0xff}) {
      std::FILE* file = std::fopen((prefix + ".idx").c_str(), "r+b");
      std::fseek(file, 34, SEEK_SET);
      for (size_t i = 34; i < whole.size(); ++i) std::fputc(value, file);
      std::fclose(file);
      int errors = 0;
      for (int64_t i = 0; i < 3 * order.samples_per_epoch(); ++i) {
        const std::string message = error_of([&] { order.read(i, ids); });
        EXPECT_TRUE(message.empty() || contains(message, "d.idx: was changed while in use"))
            << message;
        errors += message.empty() ? 0 : 1;
      }
      EXPECT_EQ(errors > 0, held_sequences == 0) << value;
    }
  }
}

TEST_F(IndexedDatasetTest, M13_IdentityIsOfTheContent) {
  const std::string a = IndexedDataset(dataset("a", {{1, 2, 3}, {4}})).identity();
  EXPECT_EQ(IndexedDataset(dataset("b", {{1, 2, 3}, {4}})).identity(), a);
  EXPECT_NE(IndexedDataset(dataset("c", {{1, 2, 3, 4}, {}})).identity(), a);
  EXPECT_NE(IndexedDataset(dataset("d", {{1, 2, 3}, {5}})).identity(), a);
  EXPECT_NE(IndexedDataset(dataset("e", {{1, 2, 3}, {4}}, DType::kI32)).identity(), a);
  // Only blocks of a large file are hashed: a build of another text differs in all of them.
  std::vector<int32_t> large(size_t{6} << 20, 1);
  const std::string one = IndexedDataset(dataset("f", {large})).identity();
  std::fill(large.begin() + 1000, large.end(), 2);
  EXPECT_NE(IndexedDataset(dataset("f", {large})).identity(), one);
}

TEST_F(IndexedDatasetTest, APipeIsRefused) {
  const std::string prefix = dataset("d", {{1}});
  std::filesystem::remove(prefix + ".bin");
  ASSERT_EQ(::mkfifo((prefix + ".bin").c_str(), 0600), 0);
  EXPECT_TRUE(contains(error_of([&] { IndexedDataset d(prefix); }), "expected a regular file"));
}

}  // namespace
}  // namespace tessera::data
