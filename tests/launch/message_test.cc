#include "launch/message.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "launch/activity.h"

namespace tessera::launch {
namespace {

TEST(HeartbeatMessage, RoundTrips) {
  HeartbeatMessage m;
  m.kind = MessageKind::kHeartbeat;
  m.step = 1247;
  m.text = "backward of layer 11\n\"quoted\" – dash";
  m.waits = true;
  m.since_s = 0.25;
  m.resident_bytes = 1 << 30;
  const std::string line = encode(m);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const HeartbeatMessage n = decode(line.substr(0, line.size() - 1));
  EXPECT_EQ(n.kind, MessageKind::kHeartbeat);
  EXPECT_EQ(n.step, 1247);
  EXPECT_EQ(n.text, m.text);
  EXPECT_TRUE(n.waits);
  EXPECT_EQ(n.since_s, 0.25);
  EXPECT_EQ(n.resident_bytes, 1 << 30);
}

TEST(HeartbeatMessage, OfAnotherVersionIsReadAsFarAsItIsKnown) {
  const HeartbeatMessage m =
      decode(R"({"kind":"hello","rank":3,"version":"9.0","mood":"good","pid":"x"})");
  EXPECT_EQ(m.rank, 3);
  EXPECT_EQ(m.version, "9.0");
  EXPECT_EQ(m.pid, 0);
  EXPECT_THROW(decode(R"({"kind":"song"})"), Error);
  EXPECT_THROW(decode("GET / HTTP/1.1"), Error);
}

TEST(LineBuffer, PiecesBecomeLines) {
  LineBuffer b;
  std::string line;
  b.append("on");
  EXPECT_FALSE(b.take(line));
  b.append("e\ntwo\nth");
  EXPECT_TRUE(b.take(line));
  EXPECT_EQ(line, "one");
  EXPECT_TRUE(b.take(line));
  EXPECT_EQ(line, "two");
  EXPECT_FALSE(b.take(line));
  EXPECT_EQ(b.rest(), "th");
  b.append(std::string(5 << 20, 'x'));
  EXPECT_THROW(b.take(line), Error);
}

TEST(LineBuffer, L2_ALongLineComesInPieces) {
  LineBuffer b(4, LineBuffer::LongLine::kSplit);
  std::string line;
  std::vector<std::string> pieces;
  for (const char* bytes : {"abcde", "fgh", "ij\nk", "lmn\n"}) {
    b.append(bytes);
    while (b.take(line)) pieces.push_back(line + (b.cut() ? "+" : "."));
  }
  EXPECT_EQ(pieces, (std::vector<std::string>{"abcd+", "efgh+", "ij.", "klmn."}));
  EXPECT_EQ(b.rest(), "");
}

TEST(ActivitySlot, KeepsWholeCharacters) {
  ActivitySlot slot;
  std::string text(255, 'a');
  slot.write(1, text + "é", false, 2.5);
  EXPECT_EQ(slot.read().text, text);
  EXPECT_EQ(slot.read().since_s, 2.5);
  slot.write(2, "x", true, 3);
  EXPECT_EQ(slot.read().text, "x");
  EXPECT_TRUE(slot.read().waits);
}

// A torn read would mix the letters, or a letter with another step.
TEST(ActivitySlot, NeverTorn) {
  ActivitySlot slot;
  slot.write(0, "", false, 0);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int64_t i = 0; !over; ++i)
      slot.write(i, std::string(static_cast<size_t>(i % 256), static_cast<char>('a' + i % 26)),
                 i % 2 != 0, static_cast<double>(i));
  });
  for (int i = 0; i < 200000; ++i) {
    const Activity d = slot.read();
    ASSERT_EQ(d.text,
              std::string(static_cast<size_t>(d.step % 256), static_cast<char>('a' + d.step % 26)));
    ASSERT_EQ(d.waits, d.step % 2 != 0);
    ASSERT_EQ(d.since_s, static_cast<double>(d.step));
  }
  over = true;
  writer.join();
}

}  // namespace
}  // namespace tessera::launch
