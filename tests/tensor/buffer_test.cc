#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace tessera {
namespace {

TEST(HostBuffer, IsZeroAndPageAligned) {
  const HostBuffer b("test", 100'003);
  ASSERT_EQ(b.bytes(), 100'003);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % 4096, 0u);
  for (int64_t i = 0; i < b.bytes(); ++i) ASSERT_EQ(b.data()[i], std::byte{0});
}

TEST(HostBuffer, OfNoBytesHoldsNothing) {
  const HostBuffer b("test", 0);
  EXPECT_EQ(b.data(), nullptr);
  b.touch(2);
}

TEST(HostBuffer, TouchFaultsEveryPageAndKeepsWhatIsThere) {
  const HostBuffer b("test", (9 << 20) + 5);
  b.data()[0] = std::byte{7};
  b.data()[b.bytes() - 1] = std::byte{9};
  b.touch(2);
  EXPECT_EQ(b.data()[0], std::byte{7});
  EXPECT_EQ(b.data()[b.bytes() - 1], std::byte{9});
  std::vector<unsigned char> resident(static_cast<size_t>((b.bytes() + 4095) / 4096));
  ASSERT_EQ(mincore(b.data(), static_cast<size_t>(b.bytes()), resident.data()), 0);
  for (const unsigned char page : resident) ASSERT_EQ(page & 1, 1);
}

TEST(HostBuffer, MovesLeaveNothingBehind) {
  HostBuffer a("a", 4096);
  std::byte* const data = a.data();
  HostBuffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.name(), "a");
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): that is the question
  HostBuffer c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.bytes(), 4096);
}

TEST(HostBuffer, RefusalNamesTheBufferAndTheSize) {
  try {
    const HostBuffer b("activations", int64_t{1} << 60);
    FAIL() << "the system gave 2^60 bytes";
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find("activations"), std::string::npos) << message;
    EXPECT_NE(message.find("MiB"), std::string::npos) << message;
  }
}

TEST(TensorView, ChecksTheTypeItIsReadAs) {
  float x = 2;
  const TensorView v{&x, DType::kF32, {1}};
  EXPECT_EQ(*v.f32(), 2.0f);
  EXPECT_EQ(v.bytes(), 4);
  EXPECT_DEATH(v.bf16(), "read as bf16");
}

}  // namespace
}  // namespace tessera
