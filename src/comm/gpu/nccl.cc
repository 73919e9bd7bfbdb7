// Transfers between GPUs by NCCL. NCCL's own reductions add in an order that depends on its version
// and topology. So every rank sends its pieces to the others with ncclSend and ncclRecv, and a
// kernel adds them in the order of ranks (gpu/reduce.cu), as comm/transfer.cc does on the host. The
// library is loaded when the first world is created.
//
//   staging:  [ piece from rank 0 | piece from rank 1 | … ]   without this rank; 64 MiB in total
//
// All operations are enqueued in the stream given by use() and complete for the host at once.
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "comm/backoff.h"
#include "comm/reduce.h"
#include "comm/world.h"
#include "tensor/gpu.h"
#include "tensor/gpu/check.h"
#include "tensor/gpu/late_library.h"

namespace tessera::comm {
namespace {

// Below this, all ranks send each other everything: a second round would cost more than it saves.
constexpr int64_t kSmallBytes = 256 << 10;
constexpr int64_t kAlignment = 64;  // elements

// Thread blocks per operation: kernels of several communicators must be resident at once, and an
// H100 has 132 multiprocessors. Estimated; 16 blocks reach the bandwidth of NVLink.
constexpr int kMostBlocks = 16;
// From this version on, NCCL itself orders the operations of several communicators of a device in
// the order in which the host issues them.
constexpr int kOrdersItself = NCCL_VERSION(2, 26, 0);

// Sets the variable that makes NCCL order its operations, unless the user has set it, and returns
// the name of the library. NCCL reads the variable when it first needs it.
std::string asked_to_order() {
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  return "libnccl.so.2";
}

// Converts a rank or a number of ranks to NCCL's type.
int as_int(int64_t n) {
  CHECK(n >= 0 && n <= INT32_MAX, "{} ranks of NCCL", n);
  return static_cast<int>(n);
}

struct Nccl {
  LateLibrary library{asked_to_order(), TESSERA_CUDA_LIBRARIES, "NCCL"};
  decltype(&ncclGetVersion) get_version = nullptr;
  // Old libraries lack this function and the next one; the pointers are then null.
  decltype(&ncclCommInitRankConfig) join_as = nullptr;
  decltype(&ncclCommFinalize) finish = nullptr;
  decltype(&ncclGetUniqueId) make_id = nullptr;
  decltype(&ncclCommInitRank) join = nullptr;
  decltype(&ncclCommAbort) leave = nullptr;
  decltype(&ncclCommDestroy) end_comm = nullptr;
  decltype(&ncclCommGetAsyncError) fault = nullptr;
  decltype(&ncclGroupStart) begin = nullptr;
  decltype(&ncclGroupEnd) end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGetErrorString) describe = nullptr;
  int version = 0;

  Nccl() {
    library.find("ncclGetVersion", get_version);
    library.find_if_there("ncclCommInitRankConfig", join_as);
    library.find_if_there("ncclCommFinalize", finish);
    library.find("ncclCommDestroy", end_comm);
    library.find("ncclGetUniqueId", make_id);
    library.find("ncclCommInitRank", join);
    library.find("ncclCommAbort", leave);
    library.find("ncclCommGetAsyncError", fault);
    library.find("ncclGroupStart", begin);
    library.find("ncclGroupEnd", end);
    library.find("ncclSend", send);
    library.find("ncclRecv", receive);
    library.find("ncclGetErrorString", describe);
    check(get_version(&version), "ncclGetVersion");
  }
  // Returns true if NCCL orders the operations of several communicators of a device.
  bool orders() const {
    const char* const asked = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return version >= kOrdersItself && asked != nullptr && std::string_view(asked) == "1";
  }
  std::string about() const {
    return fmt::format("NCCL {}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100,
                       orders()
                           ? "which orders its communicators"
                           : "transfers run one at a time (NCCL before 2.26 does not order its "
                             "communicators, or NCCL_LAUNCH_ORDER_IMPLICIT is not 1)");
  }
  ncclComm_t communicator(int64_t size, const ncclUniqueId& id, int64_t rank) const {
    ncclComm_t comm = nullptr;
    if (join_as == nullptr) {
      check(join(&comm, as_int(size), id, as_int(rank)), "ncclCommInitRank");
      return comm;
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = kMostBlocks;
    check(join_as(&comm, as_int(size), id, as_int(rank), &config), "ncclCommInitRankConfig");
    return comm;
  }
  void check(ncclResult_t code, const char* call) const {
    if (code == ncclSuccess) return;
    throw Error("{} failed: {}. Another rank has probably ended; see its error message.", call,
                describe(code));
  }
};

// Elements [begin, end) of an array.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
// Returns the part of a rank if n elements are divided into parts of `share` elements.
Range part_of(int64_t n, int64_t share, int64_t rank) {
  return {std::min(n, rank * share), std::min(n, (rank + 1) * share)};
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const Nccl& nccl, ncclComm_t comm, std::vector<int64_t> ranks, int64_t own)
      : Communicator(std::move(ranks), own), nccl_(nccl), comm_(comm) {}
  // Normal destruction waits for the other ranks. After an Error they may have ended, so it does
  // not wait.
  ~NcclCommunicator() override {
    if (comm_ == nullptr) return;
    if (failed_ || std::uncaught_exceptions() > 0) {
      abandon();
      return;
    }
    if (nccl_.finish != nullptr) nccl_.finish(comm_);
    nccl_.end_comm(comm_);
  }
  void abandon() override {
    if (comm_ != nullptr) nccl_.leave(std::exchange(comm_, nullptr));
  }

  bool is_on_stream() const override { return true; }
  void prepare_sums() override {
    if (size() > 1 && staging_.data() == nullptr)
      staging_ = DeviceBuffer("NCCL's staging", kNcclStagingBytes);
  }
  bool needs_order() const override { return size() > 1 && !nccl_.orders(); }
  void use(Stream s) override { stream_ = s; }

  Ticket all_reduce(const TensorView& in, const TensorView& out, Reduction r) override {
    const int64_t n = in.elements();
    CHECK(out.elements() == n && out.dtype == in.dtype, "all_reduce of {} to {}", n,
          out.elements());
    if (in.bytes() <= kSmallBytes && in.bytes() * (size() - 1) <= kNcclStagingBytes) {
      take_whole(in);
      add_up({.own = in.data,
              .n = n,
              .out = out.data,
              .in = in.dtype,
              .out_type = out.dtype,
              .maximum = r == Reduction::kMax},
             n);
      return over();
    }
    const int64_t share = ((n + size() - 1) / size() + kAlignment - 1) / kAlignment * kAlignment;
    const Range own = part_of(n, share, rank());
    const TensorView part = {out.at(own.begin), out.dtype, Shape{own.size()}};
    scatter(in, part, {share, r, false});
    gather(part, out, share);
    return over();
  }
  Ticket reduce_scatter(const TensorView& whole, const TensorView& part,
                        const ReduceScatterForm& how) override {
    scatter(whole, part, how);
    return over();
  }
  Ticket all_gather(const TensorView& part, const TensorView& whole, int64_t share) override {
    gather(part, whole, share);
    return over();
  }
  Ticket all_to_all(const TensorView& in, const TensorView& out) override {
    CHECK(in.elements() % size() == 0 && out.bytes() == in.bytes(),
          "all_to_all of {} to {} elements among {} ranks", in.elements(), out.elements(), size());
    const int64_t bytes = in.bytes() / size();
    const auto chunk = [&](const TensorView& x, int64_t r) {
      return x.as<std::byte>() + r * bytes;
    };
    together([&](int64_t peer) {
      give(chunk(in, peer), bytes, peer);
      take(chunk(out, peer), bytes, peer);
    });
    copy_in_stream(stream_, chunk(out, rank()), chunk(in, rank()), bytes);
    return over();
  }
  Ticket rotate(const TensorView& in, const TensorView& out) override {
    const int64_t next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
    together([&](int64_t peer) {
      if (peer == next) give(in.data, in.bytes(), peer);
      if (peer == previous) take(out.data, out.bytes(), peer);
    });
    return over();
  }
  Ticket send(const TensorView& x, int64_t peer) override {
    give(x.data, x.bytes(), peer);
    return over();
  }
  Ticket receive(const TensorView& x, int64_t peer) override {
    take(x.data, x.bytes(), peer);
    return over();
  }

  bool progress() override {
    if (comm_ == nullptr) return false;
    ncclResult_t state = ncclSuccess;
    check(nccl_.fault(comm_, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) check(state, "a transfer of NCCL");
    return false;
  }
  std::vector<int64_t> missing() const override { return {}; }  // NCCL does not report it

 private:
  Ticket over() {
    const Ticket t = open();
    close(t);
    return t;
  }
  void check(ncclResult_t code, const char* call) {
    failed_ |= code != ncclSuccess;
    nccl_.check(code, call);
  }
  gpuStream_t stream() const { return native(stream_); }
  void give(const void* data, int64_t bytes, int64_t peer) {
    if (bytes == 0) return;
    check(nccl_.send(data, bytes, ncclUint8, as_int(peer), comm_, stream()), "ncclSend");
    count_sent(bytes);
  }
  void take(void* data, int64_t bytes, int64_t peer) {
    if (bytes == 0) return;
    check(nccl_.receive(data, bytes, ncclUint8, as_int(peer), comm_, stream()), "ncclRecv");
  }
  // Calls f(peer) for all other ranks as one group of messages. The group is closed after an Error
  // too: all later calls, even those of an abort, would become part of an open one.
  template <class F>
  void together(const F& f) {
    if (size() == 1) return;
    check(nccl_.begin(), "ncclGroupStart");
    try {
      for (int64_t k = 1; k < size(); ++k) f((rank() + k) % size());
    } catch (const Error&) {
      failed_ = true;
      nccl_.end();
      throw;
    }
    check(nccl_.end(), "ncclGroupEnd");
  }
  // Returns the staging memory for the elements received from a peer.
  std::byte* staged(int64_t peer, int64_t stride_bytes) const {
    CHECK(staging_.data() != nullptr, "a sum of {} ranks without prepare_sums()", size());
    return staging_.data() + (peer < rank() ? peer : peer - 1) * stride_bytes;
  }
  void add_up(DeviceReduce r, int64_t stride) {
    r.staged = staging_.data();
    r.stride = stride;
    r.rank = rank();
    r.size = size();
    launch_reduce(r, stream_);
  }
  void take_whole(const TensorView& x) {
    together([&](int64_t peer) {
      give(x.data, x.bytes(), peer);
      take(staged(peer, x.bytes()), x.bytes(), peer);
    });
  }

  void scatter(const TensorView& whole, const TensorView& part, const ReduceScatterForm& how) {
    const int64_t n = whole.elements(), element = size_of(whole.dtype);
    const int64_t others = std::max<int64_t>(1, size() - 1);
    const int64_t piece = kNcclStagingBytes / others / element / kAlignment * kAlignment;
    const Range own = part_of(n, how.share, rank());
    CHECK(how.share * size() >= n && part.elements() >= own.size() && piece > 0,
          "{} elements in {} parts of {}; the own one has {}", n, size(), how.share,
          part.elements());
    const auto cut = [&](int64_t r, int64_t first) -> Range {
      const Range p = part_of(n, how.share, r);
      const int64_t begin = std::min(p.end, p.begin + first);
      return {begin, std::min(p.end, begin + piece)};
    };
    // The sum is computed piece by piece, since a piece from every peer must fit the staging
    // memory. The stream orders each sum before the next pieces overwrite that memory.
    for (int64_t first = 0; first < std::min(n, how.share); first += piece) {
      const Range mine = cut(rank(), first);
      together([&](int64_t peer) {
        const Range theirs = cut(peer, first);
        give(whole.at(theirs.begin), theirs.size() * element, peer);
        take(staged(peer, piece * element), mine.size() * element, peer);
      });
      add_up({.own = whole.at(mine.begin),
              .n = mine.size(),
              .out = part.at(first),
              .in = whole.dtype,
              .out_type = part.dtype,
              .maximum = how.reduction == Reduction::kMax,
              .add = how.add},
             piece);
    }
    if (!how.add)
      fill_in_stream(stream_, part.at(own.size()), 0,
                     (part.elements() - own.size()) * size_of(part.dtype));
  }

  void gather(const TensorView& part, const TensorView& whole, int64_t share) {
    const int64_t n = whole.elements(), element = size_of(whole.dtype);
    const Range own = part_of(n, share, rank());
    CHECK(part.dtype == whole.dtype && part.elements() >= own.size() && share * size() >= n,
          "{} elements from {} parts of {}", n, size(), share);
    together([&](int64_t peer) {
      const Range theirs = part_of(n, share, peer);
      give(part.data, own.size() * element, peer);
      take(whole.at(theirs.begin), theirs.size() * element, peer);
    });
    if (whole.at(own.begin) != part.data)
      copy_in_stream(stream_, whole.at(own.begin), part.data, own.size() * element);
  }

  const Nccl& nccl_;
  ncclComm_t comm_;
  Stream stream_;
  DeviceBuffer staging_;
  bool failed_ = false;
};

class NcclWorld : public World {
 public:
  explicit NcclWorld(World& host) : host_(host) {}

  int64_t rank() const override { return host_.rank(); }
  int64_t size() const override { return host_.size(); }
  const std::string& host(int64_t r) const override { return host_.host(r); }
  bool takes_turns() const override { return true; }
  std::string transport() const override { return nccl_.about(); }
  void barrier() override { host_.barrier(); }
  std::vector<std::string> all_gather(const std::string& own) override {
    return host_.all_gather(own);
  }
  void broadcast(std::string& bytes, int64_t root) override { host_.broadcast(bytes, root); }
  void all_reduce(std::span<double> x, Reduction r) override { host_.all_reduce(x, r); }
  [[noreturn]] void abort(int exit_code) override {
    host_.abort(exit_code);
    std::abort();
  }

  std::unique_ptr<Communicator> group(std::span<const int64_t> ranks) override {
    const std::vector<int64_t> members(ranks.begin(), ranks.end());
    ncclComm_t comm = nullptr;
    if (members.size() > 1) {
      const auto own = std::find(members.begin(), members.end(), rank()) - members.begin();
      comm = nccl_.communicator(std::ssize(members), common_id(ranks, own), own);
    }
    return std::make_unique<NcclCommunicator>(nccl_, comm, members, rank());
  }

 private:
  // Returns the NCCL identifier of a group. The first rank of the group creates it, and a group of
  // `host_` distributes it to the others.
  ncclUniqueId common_id(std::span<const int64_t> ranks, int64_t own) {
    constexpr int64_t kBytes = sizeof(ncclUniqueId);
    std::vector<ncclUniqueId> ids(ranks.size());
    if (own == 0) nccl_.check(nccl_.make_id(ids.data()), "ncclGetUniqueId");
    const auto group = host_.group(ranks);
    const TensorView all = {ids.data(), DType::kU8, {kBytes * group->size()}};
    const TensorView part = {&ids[own], DType::kU8, {kBytes}};
    const Ticket t = group->all_gather(part, all, kBytes);
    Backoff backoff;
    while (!group->done(t))
      if (group->progress())
        backoff.moved();
      else
        backoff.pause();
    return ids[0];
  }

  World& host_;
  Nccl nccl_;
};

}  // namespace

std::unique_ptr<World> nccl_world(World& host) { return std::make_unique<NcclWorld>(host); }

}  // namespace tessera::comm
