// The current activity of a rank. The training thread writes it at each call, and the heartbeat
// thread reads it, through a sequence lock (Hemminger 2002), so that the writer never blocks. A
// write takes about 50 ns.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tessera::launch {

struct Activity {
  int64_t step = 0;    // 0: before the first step
  double since_s = 0;  // start time, on the writer's clock
  bool waits = false;  // true if the rank waits for other ranks
  std::string text;    // description, truncated to 256 bytes
};

class ActivitySlot {
 public:
  // Writes the activity. Call it from one thread only.
  void write(int64_t step, std::string_view text, bool waits, double now_s) noexcept {
    std::array<uint64_t, kWords> bytes{};
    const size_t length = text.size() < kBytes ? text.size() : whole_characters(text);
    std::memcpy(bytes.data(), text.data(), length);
    const uint64_t turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    step_.store(step, std::memory_order_relaxed);
    since_s_.store(now_s, std::memory_order_relaxed);
    length_.store(static_cast<uint32_t>(length << 1 | (waits ? 1 : 0)), std::memory_order_relaxed);
    for (size_t i = 0; i < (length + 7) / 8; ++i)
      words_[i].store(bytes[i], std::memory_order_relaxed);
    turn_.store(turn + 2, std::memory_order_release);
  }

  // Returns a number that increases with each write, so that equal numbers mean no change.
  uint64_t turn() const { return turn_.load(std::memory_order_relaxed); }

  // Returns the activity. Any thread may call it; it retries while a write is in progress.
  Activity read() const {
    std::array<uint64_t, kWords> bytes{};
    while (true) {
      const uint64_t before = turn_.load(std::memory_order_acquire);
      Activity out;
      out.step = step_.load(std::memory_order_relaxed);
      out.since_s = since_s_.load(std::memory_order_relaxed);
      const uint32_t length = length_.load(std::memory_order_relaxed);
      out.waits = (length & 1) != 0;
      for (size_t i = 0; i < kWords; ++i) bytes[i] = words_[i].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 != 0 || turn_.load(std::memory_order_relaxed) != before) continue;
      out.text.resize(length >> 1);
      std::memcpy(out.text.data(), bytes.data(), out.text.size());
      return out;
    }
  }

 private:
  static constexpr size_t kBytes = 256, kWords = kBytes / 8;

  static size_t whole_characters(std::string_view text) noexcept {
    size_t length = kBytes;
    while (length > 0 && length < text.size() && (text[length] & 0xC0) == 0x80)
      --length;  // a UTF-8 character is not split
    return length;
  }

  std::atomic<uint64_t> turn_{0};
  std::atomic<int64_t> step_{0};
  std::atomic<double> since_s_{0};
  std::atomic<uint32_t> length_{0};  // bytes of the text × 2, + 1 if the rank waits
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace tessera::launch
