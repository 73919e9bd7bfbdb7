// Replaces NCCL: each rank is a process with an emulated device, and MPI transfers the bytes. The
// sends and receives of a group of calls in a stream are one kernel, which ends when all of them
// are done. Operations of one communicator are ordered by the library. Those of different
// communicators of a device must be ordered by the caller (streams, events), unless the library
// does it (NCCL_LAUNCH_ORDER_IMPLICIT, from 2.26 on): otherwise NCCL may wait for ever, and here
// the call fails. A kernel whose peers never start ends the test with a message that names what it
// waits for.
#include "tests/cuda/emulator/nccl.h"

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/gpu/late_library.h"
#include "tests/cuda/emulator/streams.h"

cuda_emulator::NcclConduct cuda_emulator::nccl_conduct;

using cuda_emulator::nccl_conduct;

struct EmulatedComm {
  int number = 0, own = 0;
  std::vector<int> ranks;  // in MPI_COMM_WORLD
  gpuEvent_t last = nullptr;
};

namespace {

constexpr double kDeadlockS = 120;

struct Part {
  std::byte* data = nullptr;
  size_t bytes = 0;
  int peer = 0;
  bool receives = false;
  EmulatedComm* comm = nullptr;
  gpuStream_t stream = nullptr;
};

int made = 0;  // identifiers of this rank
std::vector<Part> pending;
gpuEvent_t last = nullptr;  // of all communicators of the device
EmulatedComm* last_comm = nullptr;
cuda_emulator::Moment last_moment;
std::string complaint;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

bool orders() {
  const char* const asked = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return nccl_conduct.version >= NCCL_VERSION(2, 26, 0) && asked && std::strcmp(asked, "1") == 0;
}

// The execution of a kernel, which a graph repeats.
struct Kernel {
  std::vector<Part> parts;
  std::vector<MPI_Request> requests;
  double since_s = 0;

  bool attempt() {
    if (requests.empty()) post();
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) {
      requests.clear();
      return true;
    }
    if (now_s() - since_s > kDeadlockS) give_up();
    return false;
  }
  void post() {
    since_s = now_s();
    for (const Part& p : parts) {
      MPI_Request& r = requests.emplace_back();
      const int peer = p.comm->ranks[static_cast<size_t>(p.peer)];
      const auto bytes = static_cast<int>(p.bytes);
      if (p.receives)
        MPI_Irecv(p.data, bytes, MPI_BYTE, peer, p.comm->number, MPI_COMM_WORLD, &r);
      else
        MPI_Issend(p.data, bytes, MPI_BYTE, peer, p.comm->number, MPI_COMM_WORLD, &r);
    }
  }
  [[noreturn]] void give_up() const {
    const Part& p = parts.front();
    std::fprintf(stderr, "deadlock: rank %d has waited in communicator %d for rank %d for %.0f s\n",
                 world_rank(), p.comm->number, p.comm->ranks[static_cast<size_t>(p.peer)],
                 kDeadlockS);
    MPI_Abort(MPI_COMM_WORLD, 3);
    std::abort();
  }
};

// Waits for an event. One from outside of the present capture is ignored: graphs are ordered when
// they are launched.
ncclResult_t wait(gpuStream_t s, gpuEvent_t e) {
  if (e == nullptr) return ncclSuccess;
  const gpuError_t code = gpuStreamWaitEvent(s, e, 0);
  gpuGetLastError();
  return code == gpuSuccess || code == gpuErrorStreamCaptureIsolation ? ncclSuccess
                                                                      : ncclInvalidUsage;
}

ncclResult_t launch(const std::vector<Part>& parts) {
  EmulatedComm* const comm = parts.front().comm;
  const gpuStream_t s = parts.front().stream;
  ncclResult_t code = wait(s, comm->last);
  if (code == ncclSuccess && orders()) code = wait(s, last);
  if (code != ncclSuccess) return code;
  if (comm != last_comm && !cuda_emulator::comes_after(s, last_moment)) {
    complaint =
        "operations of two communicators of this device are not ordered, which may wait for ever";
    return ncclInvalidUsage;
  }
  const auto kernel = std::make_shared<Kernel>();
  kernel->parts = parts;
  if (cuda_emulator::enqueue_until(s, [kernel] { return kernel->attempt(); }) != gpuSuccess)
    return ncclInvalidUsage;
  for (gpuEvent_t* e : {&comm->last, &last}) {
    if (*e == nullptr) gpuEventCreateWithFlags(e, gpuEventDisableTiming);
    gpuEventRecord(*e, s);
  }
  last_comm = comm;
  last_moment = cuda_emulator::last_of(s);
  return ncclSuccess;
}

ncclResult_t add(const Part& p) {
  if (p.peer < 0 || p.peer >= static_cast<int>(p.comm->ranks.size())) return ncclInvalidArgument;
  if (nccl_conduct.open_groups > 0) {
    pending.push_back(p);
    return ncclSuccess;
  }
  return launch({p});
}

ncclResult_t end(ncclComm_t comm, int& counter) {
  ++counter;
  if (comm == last_comm) last_comm = nullptr;
  if (comm->last != nullptr) gpuEventDestroy(comm->last);
  delete comm;
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = nccl_conduct.version;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::array<int, 2> number = {world_rank(), ++made};
  std::memcpy(id->internal, number.data(), sizeof(number));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return ncclCommInitRankConfig(comm, size, id, rank, &config);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  std::array<int, 2> from{};
  std::memcpy(from.data(), id.internal, sizeof(from));
  auto c = std::make_unique<EmulatedComm>();
  c->number = from[0] * 1000 + from[1];
  c->own = rank;
  c->ranks.resize(static_cast<size_t>(size));
  // The rank that made the identifier collects the places of all ranks and sends them back.
  if (rank == 0) {
    c->ranks[0] = world_rank();
    for (int r = 1; r < size; ++r) {
      int place[2];
      MPI_Recv(place, 2, MPI_INT, MPI_ANY_SOURCE, c->number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      c->ranks[static_cast<size_t>(place[0])] = place[1];
    }
    for (int r = 1; r < size; ++r)
      MPI_Send(c->ranks.data(), size, MPI_INT, c->ranks[static_cast<size_t>(r)], c->number,
               MPI_COMM_WORLD);
  } else {
    const int place[2] = {rank, world_rank()};
    MPI_Send(place, 2, MPI_INT, from[0], c->number, MPI_COMM_WORLD);
    MPI_Recv(c->ranks.data(), size, MPI_INT, from[0], c->number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  ++nccl_conduct.joined;
  nccl_conduct.most_blocks = config->maxCTAs;
  *comm = c.release();
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return end(comm, nccl_conduct.aborted); }
ncclResult_t ncclCommFinalize(ncclComm_t) {
  ++nccl_conduct.finalized;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return end(comm, nccl_conduct.destroyed); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++nccl_conduct.open_groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--nccl_conduct.open_groups > 0) return ncclSuccess;
  std::vector<Part> parts;
  parts.swap(pending);
  if (parts.empty()) return ncclSuccess;
  return launch(parts);
}
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      gpuStream_t stream) {
  if (std::exchange(nccl_conduct.refuses_sends, false)) return ncclInvalidArgument;
  return add({static_cast<std::byte*>(const_cast<void*>(data)), count, peer, false, comm, stream});
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      gpuStream_t stream) {
  return add({static_cast<std::byte*>(data), count, peer, true, comm, stream});
}
const char* ncclGetErrorString(ncclResult_t) {
  return complaint.empty() ? "emulated" : complaint.c_str();
}

void* cuda_emulator::nccl_function(const std::string& name) {
  const bool config = nccl_conduct.version >= NCCL_VERSION(2, 14, 0);
#define TESSERA_FUNCTION(f) \
  { #f, reinterpret_cast < void*>(&f) }
  const std::map<std::string, void*> all = {
      TESSERA_FUNCTION(ncclGetVersion),    TESSERA_FUNCTION(ncclGetUniqueId),
      TESSERA_FUNCTION(ncclCommInitRank),  TESSERA_FUNCTION(ncclCommInitRankConfig),
      TESSERA_FUNCTION(ncclCommAbort),     TESSERA_FUNCTION(ncclCommFinalize),
      TESSERA_FUNCTION(ncclCommDestroy),   TESSERA_FUNCTION(ncclCommGetAsyncError),
      TESSERA_FUNCTION(ncclGroupStart),    TESSERA_FUNCTION(ncclGroupEnd),
      TESSERA_FUNCTION(ncclSend),          TESSERA_FUNCTION(ncclRecv),
      TESSERA_FUNCTION(ncclGetErrorString)};
#undef TESSERA_FUNCTION
  if (!config && (name == "ncclCommInitRankConfig" || name == "ncclCommFinalize")) return nullptr;
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}
