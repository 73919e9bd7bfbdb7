// Any bytes as what mpirun, srun and ranks write: they are split into lines, which are read as
// those of both starters and as messages. The first byte chooses how many bytes come at a time.
#include "base/error.h"
#include "launch/command.h"
#include "launch/message.h"

namespace tessera {
namespace {

// `messages`: how many more lines are read as messages. Throwing an Error takes far longer than the
// rest.
void read_line(const std::string& line, int& messages) {
  for (const launch::Launcher launcher : {launch::Launcher::kMpirun, launch::Launcher::kSrun}) {
    const launch::RankLine said = launch::parse_line(launcher, line),
                           ending = launch::parse_ending(launcher, line);
    CHECK(said.rank >= -1 && ending.rank >= -1, "rank {}, {}", said.rank, ending.rank);
    CHECK(said.text.size() <= line.size(), "{} bytes of {}", said.text.size(), line.size());
  }
  launch::is_noise(line);
  if (messages-- <= 0) return;
  try {
    const std::string once = launch::encode(launch::decode(line));
    const std::string again =
        launch::encode(launch::decode(std::string_view(once).substr(0, once.size() - 1)));
    CHECK(once == again, "{} is read back as {}", once, again);
  } catch (const Error&) {
  }
}

// All bytes come out again, in lines of at most kLongest bytes.
void split(std::string_view bytes, size_t at_a_time, launch::LineBuffer::LongLine rule,
           const auto& use) {
  constexpr size_t kLongest = 1000;
  launch::LineBuffer buffer(kLongest, rule);
  std::string line;
  size_t taken = 0;
  for (size_t from = 0; from < bytes.size(); from += at_a_time) {
    buffer.append(bytes.substr(from, at_a_time));
    while (buffer.take(line)) {
      CHECK(line.size() <= kLongest, "a line of {} bytes", line.size());
      taken += line.size() + (buffer.cut() ? 0 : 1);
      use(line);
    }
  }
  CHECK(taken + buffer.rest().size() == bytes.size(), "{} of {} bytes", taken, bytes.size());
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t at_a_time = size_t{1} + data[0] * size_t{16};
  int messages = 4;
  split(bytes, at_a_time, launch::LineBuffer::LongLine::kSplit,
        [&](const std::string& line) { read_line(line, messages); });
  try {
    split(bytes, at_a_time, launch::LineBuffer::LongLine::kThrow, [](const std::string&) {});
  } catch (const Error&) {
  }
  return 0;
}
