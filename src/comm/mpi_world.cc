// Ranks as MPI 3.1 processes. Every message is a non-blocking point-to-point message. A blocking
// MPI call would spin on a core that other threads compute on, so waiting goes through Backoff,
// except at startup, at shutdown and where groups are created.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <exception>

#include "base/error.h"
#include "comm/backoff.h"
#include "comm/reduce.h"
#include "comm/transfer.h"
#include "comm/world.h"

namespace tessera::comm {
namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error("{} failed: {}. Another rank has probably ended; see its error message.", call,
              std::string(text.data(), length));
}

void wait(MPI_Request request) {
  Backoff backoff;
  for (int flag = 0;;) {
    check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    if (flag) return;
    backoff.pause();
  }
}

int as_int(int64_t n) {
  CHECK(n >= 0 && n <= INT32_MAX, "{} in one MPI call", n);
  return static_cast<int>(n);
}

// A FIFO of transfers. Their steps form one numbered sequence. Steps [finished_, started_) are in
// flight:
//
//   transfer A: steps 0 … 4      transfer B: steps 5 … 9
//   0  1  2 | 3  4  5  6 | 7  8  9
//           ^ finished_  ^ started_ <= finished_ + kStepsInFlight
//
// A step of B may start before A is complete, so the link does not idle between transfers. Steps
// finish in order, which fixes the order of sums and lets step k reuse the staging slot of step k -
// kStepsInFlight.
class PendingQueue {
 public:
  // The messages of a queue carry its tag, so that the queues of a communicator never mix. The
  // queues of sends and of receives use the same tag, since a send matches a receive of the peer.
  PendingQueue(MPI_Comm comm, int tag) : comm_(comm), tag_(tag) {}

  void push(Ticket ticket, Transfer transfer) {
    const int64_t first = end_;
    end_ += transfer.steps;
    waiting_.push_back({ticket, first, std::move(transfer)});
  }

  // Advances the steps in flight. Calls over(ticket) for each finished transfer and sent(bytes) for
  // each message handed to MPI.
  template <class Over, class Sent>
  bool progress(const Over& over, const Sent& sent) {
    if (waiting_.empty()) return false;
    bool moved = start_steps(sent);
    while (finished_ < started_ && arrived(finished_)) {
      const Waiting& w = waiting_.front();
      w.transfer.finish({finished_ - w.first, slot(finished_)});
      ++finished_;
      moved = true;
      close_finished(over);
      start_steps(sent);
    }
    return close_finished(over) || moved;
  }

  void missing(std::vector<int64_t>& peers) const {
    for (int64_t step = finished_; step < started_; ++step)
      for (const Posted& p : posted(step)) {
        int flag = 0;
        check(MPI_Request_get_status(p.request, &flag, MPI_STATUS_IGNORE),
              "MPI_Request_get_status");
        if (!flag) peers.push_back(p.peer);
      }
  }

 private:
  struct Waiting {
    Ticket ticket;
    int64_t first;  // number of its step 0 in the sequence of all transfers
    Transfer transfer;
    int64_t end() const { return first + transfer.steps; }
  };
  struct Posted {
    MPI_Request request;
    int64_t peer;
  };

  static int64_t slot(int64_t step) { return step % kStepsInFlight; }
  std::vector<Posted>& posted(int64_t step) { return posted_[slot(step)]; }
  const std::vector<Posted>& posted(int64_t step) const { return posted_[slot(step)]; }

  template <class Over>
  bool close_finished(const Over& over) {
    bool closed = false;
    for (; !waiting_.empty() && waiting_.front().end() == finished_; waiting_.pop_front()) {
      over(waiting_.front().ticket);
      closed = true;
    }
    return closed;
  }

  template <class Sent>
  bool start_steps(const Sent& sent) {
    const int64_t before = started_;
    for (const Waiting& w : waiting_)
      for (; started_ < w.end(); ++started_) {
        // The steps after a barrier overwrite memory that steps before it are sending: see
        // all_reduce_transfer().
        const int64_t barrier = w.first + w.transfer.barrier;
        if (started_ == finished_ + kStepsInFlight) return started_ > before;
        if (w.transfer.barrier > 0 && started_ >= barrier && finished_ < barrier)
          return started_ > before;
        start_step(w, sent);
      }
    return started_ > before;
  }

  template <class Sent>
  void start_step(const Waiting& w, const Sent& sent) {
    messages_.clear();
    w.transfer.messages({started_ - w.first, slot(started_)}, messages_);
    posted(started_).clear();
    for (const PeerMessage& m : messages_) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int n = as_int(m.bytes), peer = as_int(m.peer);
      if (m.receives) {
        check(MPI_Irecv(m.data, n, MPI_BYTE, peer, tag_, comm_, &request), "MPI_Irecv");
      } else {
        check(MPI_Isend(m.data, n, MPI_BYTE, peer, tag_, comm_, &request), "MPI_Isend");
        sent(m.bytes);
      }
      posted(started_).push_back({request, m.peer});
    }
  }

  // Returns true if all messages of a step are complete.
  bool arrived(int64_t step) {
    requests_.clear();
    for (const Posted& p : posted(step)) requests_.push_back(p.request);
    int flag = 1;
    if (!requests_.empty())
      check(
          MPI_Testall(as_int(std::ssize(requests_)), requests_.data(), &flag, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    return flag != 0;
  }

  MPI_Comm comm_;
  int tag_;
  std::deque<Waiting> waiting_;
  int64_t started_ = 0, finished_ = 0, end_ = 0;  // numbers of steps in the sequence
  std::array<std::vector<Posted>, kStepsInFlight> posted_;
  std::vector<PeerMessage> messages_;
  std::vector<MPI_Request> requests_;
};

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(MPI_Comm comm, std::vector<int64_t> ranks, int64_t own)
      : Communicator(std::move(ranks), own),
        comm_(comm),
        collectives_(comm, 1),
        sends_(comm, 2),
        receives_(comm, 2) {}
  ~MpiCommunicator() override {
    // Freeing is collective. After an exception the other ranks do not take part.
    if (std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }

  Ticket all_reduce(const TensorView& in, const TensorView& out, Reduction r) override {
    return push(collectives_, all_reduce_transfer(reducing(), in, out, r));
  }
  Ticket reduce_scatter(const TensorView& whole, const TensorView& part,
                        const ReduceScatterForm& how) override {
    return push(collectives_, reduce_scatter_transfer(reducing(), whole, part, how));
  }
  Ticket all_gather(const TensorView& part, const TensorView& whole, int64_t share) override {
    return push(collectives_, all_gather_transfer(member(), part, whole, share));
  }
  Ticket rotate(const TensorView& in, const TensorView& out) override {
    return push(collectives_, rotate_transfer(member(), in, out));
  }
  Ticket all_to_all(const TensorView& in, const TensorView& out) override {
    return push(collectives_, all_to_all_transfer(member(), in, out));
  }
  Ticket send(const TensorView& x, int64_t peer) override {
    return push(sends_, message_transfer(x, peer, false));
  }
  Ticket receive(const TensorView& x, int64_t peer) override {
    return push(receives_, message_transfer(x, peer, true));
  }

  bool progress() override {
    bool moved = false;
    for (PendingQueue* queue : {&collectives_, &sends_, &receives_})
      moved |= queue->progress([this](Ticket t) { close(t); },
                               [this](int64_t bytes) { count_sent(bytes); });
    return moved;
  }

  std::vector<int64_t> missing() const override {
    std::vector<int64_t> peers;
    for (const PendingQueue* queue : {&collectives_, &sends_, &receives_}) queue->missing(peers);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    for (int64_t& p : peers) p = ranks()[p];
    return peers;
  }

 private:
  Member member() const { return {rank(), size(), staging_.data()}; }
  Member reducing() {
    if (!staging_.data()) staging_ = HostBuffer("staging", staging_bytes(size()));
    return member();
  }
  Ticket push(PendingQueue& queue, Transfer t) {
    const Ticket ticket = open();
    queue.push(ticket, std::move(t));
    return ticket;
  }

  MPI_Comm comm_;
  HostBuffer staging_;
  PendingQueue collectives_, sends_, receives_;
};

class MpiWorld : public World {
 public:
  MpiWorld() {
    // Open MPI sends long messages over TCP as writes to the remote memory, which reaches 60 % of a
    // link's bandwidth; plain messages reach all of it (docs/decisions/progress.md). A value that
    // the user has set is kept.
    ::setenv("OMPI_MCA_btl_tcp_flags", "9", 0);  // send, without a copy
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
    if (given < MPI_THREAD_SERIALIZED)
      throw Error(
          "this MPI lacks MPI_THREAD_SERIALIZED, which the progress thread needs. Use an MPI that "
          "was built with thread support, such as Debian's Open MPI.");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
    hosts_ = all_gather(std::string(name.data(), length));
  }
  ~MpiWorld() override {
    if (std::uncaught_exceptions() > 0) return;
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  const std::string& host(int64_t r) const override { return hosts_.at(r); }

  std::unique_ptr<Communicator> group(std::span<const int64_t> ranks) override {
    if (ranks.size() == 1) return self_communicator(rank_);
    std::vector<int> members;
    for (const int64_t r : ranks) members.push_back(as_int(r));
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_group(comm_, &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, as_int(std::ssize(members)), members.data(), &some),
          "MPI_Group_incl");
    check(MPI_Comm_create_group(comm_, some, 0, &comm), "MPI_Comm_create_group");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return std::make_unique<MpiCommunicator>(comm, std::vector<int64_t>(ranks.begin(), ranks.end()),
                                             rank_);
  }

  void barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
    wait(request);
  }

  std::vector<std::string> all_gather(const std::string& own) override {
    const size_t n = size_;
    std::vector<int> lengths(n), starts(n, 0);
    const int length = as_int(std::ssize(own));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_, &request),
          "MPI_Iallgather");
    wait(request);
    for (size_t r = 1; r < n; ++r) starts[r] = starts[r - 1] + lengths[r - 1];
    std::string joined(starts.back() + lengths.back(), '\0');
    check(MPI_Iallgatherv(own.data(), length, MPI_CHAR, joined.data(), lengths.data(),
                          starts.data(), MPI_CHAR, comm_, &request),
          "MPI_Iallgatherv");
    wait(request);
    std::vector<std::string> out;
    for (size_t r = 0; r < n; ++r) out.push_back(joined.substr(starts[r], lengths[r]));
    return out;
  }

  void broadcast(std::string& bytes, int64_t root) override {
    auto length = std::ssize(bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(&length, 1, MPI_INT64_T, as_int(root), comm_, &request), "MPI_Ibcast");
    wait(request);
    bytes.resize(length);
    check(MPI_Ibcast(bytes.data(), as_int(length), MPI_CHAR, as_int(root), comm_, &request),
          "MPI_Ibcast");
    wait(request);
  }

  // Gathers the terms and adds them on each rank, so that the sum has the order of the ranks.
  void all_reduce(std::span<double> x, Reduction r) override {
    const int64_t n = std::ssize(x);
    std::vector<double> all(n * size_);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(x.data(), as_int(n), MPI_DOUBLE, all.data(), as_int(n), MPI_DOUBLE, comm_,
                         &request),
          "MPI_Iallgather");
    wait(request);
    std::vector<const std::byte*> terms;
    for (int i = 0; i < size_; ++i)
      terms.push_back(reinterpret_cast<const std::byte*>(all.data() + i * n));
    reduce_in_order({.terms = terms,
                     .in = DType::kF64,
                     .n = n,
                     .out = reinterpret_cast<std::byte*>(x.data()),
                     .out_type = DType::kF64,
                     .reduction = r});
  }

  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::abort();
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_;
};

}  // namespace

std::unique_ptr<World> mpi_world() { return std::make_unique<MpiWorld>(); }

}  // namespace tessera::comm
