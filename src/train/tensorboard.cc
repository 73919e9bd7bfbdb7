// Writes TensorBoard event files: TFRecord frames around Event messages in protobuf's wire format.
// The messages are few and simple, so they are encoded by hand, without protobuf's compiler.
#include "train/tensorboard.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/wire_message.h"

namespace tessera::train {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

// The table of the byte-wise algorithm, for the reflected Castagnoli polynomial.
constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t kCastagnoliReversed = 0x82f63b78u;
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1u) ? kCastagnoliReversed : 0u);
    table[i] = c;
  }
  return table;
}

template <class T>
void append_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Field numbers of TensorFlow's event.proto and summary.proto.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr uint32_t kStatus = 1;
constexpr uint64_t kStart = 1;  // makes a reader discard this step and later ones of older files
}  // namespace session_log
namespace summary {
constexpr uint32_t kValue = 1, kTag = 1, kSimpleValue = 2;
}

// Returns the fields that every Event begins with.
std::string event_at(int64_t step, double wall_time_s) {
  std::string e;
  append_wire_double(e, event::kWallTime, wall_time_s);
  append_wire_varint(e, event::kStep, step);
  return e;
}

// Returns the number of seconds for the name of a new file, which sorts after all existing files
// even if the clock was set back.
int64_t next_second(const Path& folder, double wall_time_s) {
  int64_t second = static_cast<int64_t>(wall_time_s);
  std::error_code ignored;  // a folder that cannot be read makes opening the file fail
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    int64_t other = 0;
    if (name.starts_with(kPrefix) &&
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), other).ec ==
            std::errc()) {
      second = std::max(second, other + 1);
    }
  }
  return second;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t c = ~0u;
  for (const char b : bytes) c = kTable[(c ^ static_cast<uint8_t>(b)) & 0xffu] ^ (c >> 8);
  return ~c;
}

uint32_t masked_crc32c(std::string_view bytes) {
  constexpr uint32_t kMaskDelta = 0xa282ead8u;  // TFRecord's constant
  const uint32_t c = crc32c(bytes);
  return ((c >> 15) | (c << 17)) + kMaskDelta;
}

std::string tfrecord(std::string_view payload) {
  std::string out;
  append_little_endian(out, payload.size());
  append_little_endian(out, masked_crc32c(out));
  out.append(payload);
  append_little_endian(out, masked_crc32c(payload));
  return out;
}

namespace {

// Returns the records that every file starts with.
std::string head_of_file(int64_t first_step, double wall_time_s) {
  std::string version = event_at(0, wall_time_s);
  append_wire_bytes(version, event::kFileVersion, "brain.Event:2");
  std::string start = event_at(first_step, wall_time_s), log;
  append_wire_varint(log, session_log::kStatus, session_log::kStart);
  append_wire_bytes(start, event::kSessionLog, log);
  return tfrecord(version) + tfrecord(start);
}

}  // namespace

TensorBoardFile::TensorBoardFile(const Path& folder, int64_t first_step, double wall_time_s,
                                 std::function<bool()> owned)
    : file_(folder / fmt::format("{}{:010}.tessera", kPrefix, next_second(folder, wall_time_s)),
            head_of_file(first_step, wall_time_s), std::move(owned)) {}

void TensorBoardFile::add(int64_t step, double wall_time_s, std::span<const Scalar> scalars) {
  std::string e = event_at(step, wall_time_s), values;
  for (const auto& [tag, value] : scalars) {
    std::string one;
    append_wire_bytes(one, summary::kTag, tag);
    append_wire_float(one, summary::kSimpleValue, static_cast<float>(value));
    append_wire_bytes(values, summary::kValue, one);
  }
  append_wire_bytes(e, event::kSummary, values);
  file_.append(tfrecord(e));
}

}  // namespace tessera::train
