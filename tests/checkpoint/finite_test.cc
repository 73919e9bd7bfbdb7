// M2, M14: NaN and infinity are found in every type, and neither written nor read.
#include "checkpoint/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/async_save.h"
#include "checkpoint/convert.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<std::byte> numbers(DType type, const std::vector<double>& x) {
  std::vector<std::byte> out(x.size() * static_cast<size_t>(size_of(type)));
  convert(reinterpret_cast<const std::byte*>(x.data()), DType::kF64, out.data(), type,
          static_cast<int64_t>(x.size()));
  return out;
}

TEST(Finite, M14_EveryTypeAndPlace) {
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (const int64_t n : {1, 5, 4096, 4097, 10'000})
      for (const auto& [value, kind] : {std::pair{kNan, "nan"}, {kInf, "inf"}, {-kInf, "-inf"}})
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          std::vector<double> x(static_cast<size_t>(n), type == DType::kF16 ? 65504.0 : 3e38);
          const auto test = [&] { return find_non_finite(numbers(type, x).data(), type, n); };
          if (type != DType::kBF16) {
            EXPECT_FALSE(test()) << name_of(type);
          }
          for (double& v : x) v = -1.5;
          EXPECT_FALSE(test()) << name_of(type);
          x[static_cast<size_t>(at)] = value;
          if (at + 1 < n) x.back() = kInf;
          const NonFinite found = test();
          EXPECT_EQ(found.first, at);
          EXPECT_EQ(found.count, at + 1 < n ? 2 : 1);
          EXPECT_EQ(found.kind, kind);
        }
}

TEST(Finite, M14_MessagesNameElementAndCount) {
  const std::vector<std::byte> x = numbers(DType::kF32, {0, 1, 2, 3, kNan, 5, 6, kInf});
  EXPECT_EQ(describe(find_non_finite(x.data(), DType::kF32, 8), "w", {2, 2, 2}),
            "'w' has nan at [1, 0, 0]; 2 of its 8 elements are not finite");
}

// A state that is not finite is never visible, and what was saved before stays.
TEST(Finite, M2_SuchAStateIsNotSaved) {
  const TemporaryFolder folder;
  std::vector<float> good(6000, 1.0f), bad(6000, 1.0f);
  bad[5000] = std::nanf("");
  const auto tensor = [](std::vector<float>& x) {
    return StateTensor{"w", DType::kF32, {60, 100}, {}, {}, {x.data(), DType::kF32, {60, 100}}};
  };
  CheckpointHeader header;
  header.step = 1;
  save(folder.path(), header, {tensor(good)});
  header.step = 2;
  try {
    save(folder.path(), header, {tensor(good), tensor(bad)});
    ADD_FAILURE() << "saved";
  } catch (const NumericError& e) {
    EXPECT_EQ(
        std::string(e.what()),
        "the state after step 2 is not saved: 'w' has nan at [50, 0]; 1 of its 6,000 elements "
        "is not finite");
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "1" / "index.json"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "2"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "2.part"));
  CheckpointReader reader(folder.path() / "1");
  EXPECT_NO_THROW(require_finite(reader));
}

}  // namespace
}  // namespace tessera::checkpoint
