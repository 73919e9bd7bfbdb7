// One attempt of a run: a single thread that polls heartbeats and the launcher's output, feeds both
// to RankMonitor, and carries out its decision.
//
// Ending goes in stages: an end message to the ranks, SIGTERM to mpirun or srun, then SIGKILL to
// its process group. Every stage is needed: ranks may hang in MPI, and mpirun may hang while it
// waits for an unreachable host.
#include "launch/supervise.h"

#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "launch/child.h"
#include "launch/monitor_endpoint.h"
#include "launch/rank_states.h"
#include "launch/receiver.h"

namespace tessera::launch {
namespace {

constexpr int kLookMs = 100;
constexpr double kPulse_s = 0.5;
// Seconds from the end message to the ranks until the launcher receives SIGTERM and SIGKILL.
constexpr double kPolite_s = 1.5, kPatient_s = 4;
constexpr size_t kMostWords = 12;  // lines of the launcher's own output that are kept
// In bytes. A longer line is passed on in pieces.
constexpr size_t kLongestOutputLine = size_t{64} << 10;

// Raises the limit of open files. There is one connection per rank, so the usual limit of 1,024
// would end at about a thousand ranks.
void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class Attempt {
 public:
  explicit Attempt(const AttemptOptions& options)
      : o_(options),
        receiver_(token_, options.monitor.ranks, options.interfaces),
        monitor_(options.monitor, options.now_s()),
        child_(options.command, {std::string(kEndpointVariable) + "=" +
                                 to_text({token_, receiver_.port(), options.addresses})}),
        states_(options.state_file) {}
  AttemptResult go();

 private:
  struct Stream {
    const Descriptor& from;
    std::FILE* to;
    bool open = true;
    LineBuffer lines{kLongestOutputLine, LineBuffer::LongLine::kSplit};
    bool continues = false;  // the next line is the rest of the last one, which was too long
    int rank = -1;           // the rank that printed the last line
  };

  void wait();
  void read_ranks();
  void read_output(Stream& stream);
  void show(Stream& stream, const std::string& line);
  void obey_user();
  void end_all();
  bool done();
  std::string words() const;

  const AttemptOptions& o_;
  std::string token_ = new_token();
  Receiver receiver_;
  RankMonitor monitor_;
  Child child_;
  std::array<Stream, 2> streams_{Stream{child_.out(), o_.out}, Stream{child_.err(), o_.err}};
  RankStateFile states_;
  std::map<int, std::ofstream> files_;
  std::vector<std::string> words_;  // the launcher's own output
  double pulsed_s_ = 0, decided_s_ = 0;
  int asked_ = 0;
  bool told_starter_ = false;
};

void Attempt::wait() {
  std::array<pollfd, 3> wait{};
  nfds_t n = 0;
  wait[n++] = {receiver_.descriptor(), POLLIN, 0};
  for (const Stream& s : streams_)
    if (s.open) wait[n++] = {s.from.get(), POLLIN, 0};
  ::poll(wait.data(), n, kLookMs);
}

void Attempt::read_ranks() {
  for (const RankEvent& e : receiver_.read()) {
    if (e.closed) {
      monitor_.closed(o_.now_s(), e.rank);
      continue;
    }
    monitor_.heard(o_.now_s(), e.rank, e.message);
    // This rank started after the user had asked to stop.
    if (asked_ > 0 && e.message.kind == MessageKind::kHello)
      receiver_.tell(e.rank, MessageKind::kStop);
    const bool last = e.message.kind == MessageKind::kError || e.message.kind == MessageKind::kBye;
    // Both kinds are acknowledged, so that the rank can exit.
    if (last) receiver_.tell(e.rank, MessageKind::kAck);
  }
  if (o_.now_s() - pulsed_s_ < kPulse_s) return;
  pulsed_s_ = o_.now_s();
  receiver_.tell_all(MessageKind::kPing);
}

void Attempt::show(Stream& stream, const std::string& line) {
  // The rest of a split line has no prefix of its own; it belongs to the rank of its beginning.
  const RankLine said =
      stream.continues ? RankLine{stream.rank, line} : parse_line(o_.launcher, line);
  stream.continues = stream.lines.cut();
  stream.rank = said.rank;
  if (said.rank < 0) {
    if (const RankLine ending = parse_ending(o_.launcher, line); ending.rank >= 0)
      monitor_.ended_by(ending.rank, ending.text);
    if (!is_noise(line) && words_.size() < kMostWords) words_.push_back(line);
    return;
  }
  // After the decision, errors are consequences: ranks that are being ended print them.
  if (stream.to == o_.err && !monitor_.failure()) monitor_.printed(said.rank, said.text);
  if (!o_.rank_files.empty()) {
    std::ofstream& file = files_[said.rank];
    if (!file.is_open())
      file.open(o_.rank_files / fmt::format("rank-{}.txt", said.rank), std::ios::app);
    file << said.text << std::endl;
  }
  const std::string who = said.rank == 0 ? "" : fmt::format("rank {}: ", said.rank);
  print_to(stream.to, fmt::format("{}{}\n", who, said.text));
}

void Attempt::read_output(Stream& stream) {
  if (!stream.open) return;
  std::string bytes, line;
  const Received received = receive(stream.from, bytes);
  stream.lines.append(bytes);
  while (stream.lines.take(line)) show(stream, line);
  if (received != Received::kClosed) return;
  stream.open = false;
  // The last line may have no line end.
  if (const std::string rest = stream.lines.rest(); !rest.empty()) show(stream, rest);
}

void Attempt::obey_user() {
  const int asked = o_.stop_requests();
  if (asked > 0 && asked_ == 0) receiver_.tell_all(MessageKind::kStop);
  // The first request lets the ranks save; the second ends them at once.
  if (asked > 1 && asked_ < 2) end_all();
  asked_ = asked;
}

void Attempt::end_all() {
  receiver_.tell_all(MessageKind::kEnd);
  if (decided_s_ <= 0) decided_s_ = o_.now_s();
}

std::string Attempt::words() const {
  std::string out;
  for (const std::string& w : words_) out += (out.empty() ? "  " : "\n  ") + w;
  return out;
}

// Returns true if all processes of this attempt have ended.
bool Attempt::done() {
  const double since = decided_s_ > 0 ? o_.now_s() - decided_s_ : 0;
  if (since > kPolite_s && !told_starter_) {
    told_starter_ = true;
    child_.signal(SIGTERM);
  }
  if (since > kPatient_s) child_.signal_all(SIGKILL);
  const std::optional<int> code = child_.ended();
  if (!code) return false;
  // A process that inherited the pipes may keep them open, so their end is not awaited. Their
  // present contents are read once more.
  if (streams_[0].open || streams_[1].open) {
    for (Stream& s : streams_) read_output(s);
  }
  // The last messages of the ranks may still be unread.
  read_ranks();
  if (monitor_.failure() || asked_ > 1) return true;
  // A program that is not a training run (none_came) may end without ever connecting.
  const bool in_order = *code == 0 && (monitor_.all_left() || monitor_.none_came());
  if (in_order) return true;
  monitor_.launcher_ended(o_.now_s(), o_.command[0], *code, words());
  // Not done yet: RankMonitor waits for its settling time, then decides.
  return false;
}

AttemptResult Attempt::go() {
  states_.remove();  // the states of the previous attempt
  allow_many_files();
  do {
    wait();
    read_ranks();
    for (Stream& s : streams_) read_output(s);
    const bool decided = monitor_.failure().has_value();
    monitor_.tick(o_.now_s());
    // The ranks are ended as soon as the decision is known, and the loop continues until they are
    // gone.
    if (!decided && monitor_.failure()) {
      states_.write(monitor_, o_.now_s(), true);  // as they were when the failure was detected
      end_all();
    }
    if (!monitor_.failure()) states_.write(monitor_, o_.now_s(), false);
    for (const std::string& w : monitor_.take_warnings())
      print_to(o_.err, fmt::format("warning: {}\n", w));
    obey_user();
  } while (!done());
  AttemptResult r;
  r.failure = monitor_.failure();
  if (r.failure)
    r.report = monitor_.report();
  else
    states_.remove();
  r.hosts = monitor_.hosts();
  r.step = monitor_.step();
  r.stopped = asked_ > 0;
  if (decided_s_ > 0) r.ending_s = o_.now_s() - decided_s_;
  return r;
}

}  // namespace

AttemptResult attempt(const AttemptOptions& options) { return Attempt(options).go(); }

}  // namespace tessera::launch
