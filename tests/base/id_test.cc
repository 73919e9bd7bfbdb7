#include "base/id.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

namespace tessera {
namespace {

using AppleId = Id<struct AppleTag>;
using PearId = Id<struct PearTag>;

// Ids of two kinds, and ids and numbers, do not convert into each other.
static_assert(!std::is_convertible_v<AppleId, PearId>);
static_assert(!std::is_constructible_v<PearId, AppleId>);
static_assert(!std::is_convertible_v<int32_t, AppleId>);
static_assert(!std::is_convertible_v<AppleId, int32_t>);
static_assert(std::is_convertible_v<None, AppleId>);
static_assert(std::is_convertible_v<None, int64_t>);
static_assert(sizeof(AppleId) == sizeof(int32_t));

TEST(Id, IsNoneUnlessANumberIsGiven) {
  AppleId id;
  EXPECT_FALSE(id);
  EXPECT_TRUE(id == kNone);
  id = AppleId(3);
  EXPECT_TRUE(id);
  EXPECT_TRUE(id != kNone);
  EXPECT_EQ(id.number(), 3);
  id = kNone;
  EXPECT_FALSE(id);
}

TEST(Id, IsOrderedByNumberWithNoneFirst) {
  EXPECT_TRUE(AppleId(1) < AppleId(2));
  EXPECT_TRUE(AppleId() < AppleId(0));
  EXPECT_TRUE(AppleId(2) == AppleId(int64_t{2}));
}

TEST(Id, IsPrintedAsItsNumber) {
  EXPECT_EQ(fmt::format("%{}", AppleId(7)), "%7");
  EXPECT_EQ(fmt::format("{}", AppleId()), "-1");
  const std::array ids = {AppleId(1), AppleId(2)};
  EXPECT_EQ(fmt::format("#{}", fmt::join(ids, ",#")), "#1,#2");
}

TEST(None, IsMinusOneAsANumber) {
  const int64_t layer = kNone;
  EXPECT_EQ(layer, -1);
  EXPECT_TRUE(layer == kNone);
}

TEST(IdVector, IsIndexedByItsIds) {
  IdVector<AppleId, std::string> names;
  const AppleId next = names.next_id();
  const AppleId a = names.push_back("a"), b = names.emplace_back("b");
  EXPECT_TRUE(next == a);
  EXPECT_EQ(names[a] + names[b], "ab");
  names[b] = "c";
  EXPECT_EQ(names.at(b), "c");
  EXPECT_TRUE(names.contains(b));
  EXPECT_FALSE(names.contains(names.next_id()));
  EXPECT_FALSE(names.contains(kNone));
  EXPECT_THROW(names.at(names.next_id()), std::out_of_range);
}

TEST(IdVector, ListsItsIdsInRisingOrder) {
  const IdVector<AppleId, bool> marks = {true, false, true};
  std::string text;
  for (const AppleId id : marks.ids()) text += fmt::format("{}{} ", id, marks[id] ? "!" : "");
  EXPECT_EQ(text, "0! 1 2! ");
  EXPECT_EQ(std::count(marks.begin(), marks.end(), true), 2);
}

TEST(IdSpan, SeesTheEntriesOfAVector) {
  IdVector<PearId, int> numbers(2, 5);
  const IdSpan<PearId, int> span = numbers;
  numbers[PearId(1)] = 6;
  EXPECT_EQ(span[PearId(0)], 5);
  EXPECT_EQ(span[PearId(1)], 6);
  EXPECT_EQ(span.size(), 2u);
  EXPECT_FALSE(span.contains(PearId(2)));
}

}  // namespace
}  // namespace tessera
