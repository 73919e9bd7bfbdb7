// All ranks of a run.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

class World {
 public:
  virtual ~World() = default;
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual const std::string& host(int64_t rank) const = 0;

  // Returns the communicator of a group. `ranks` lists its members in the group's order, which need
  // not be ascending, and includes this rank. Every member calls it with the same list; ranks that
  // share several groups create them in the same order. The messages of different communicators
  // never mix, even if they have the same members.
  virtual std::unique_ptr<Communicator> group(std::span<const int64_t> ranks) = 0;

  // Returns true if the transfers of one communicator run one after another, whatever their
  // direction: a waiting receive then delays the sends that follow it.
  virtual bool takes_turns() const { return false; }
  // Returns the name of the transport between ranks, for the log.
  virtual std::string transport() const { return "MPI"; }

  // Collectives for setup and reporting. They block until all ranks have called them.
  virtual void barrier() = 0;
  virtual std::vector<std::string> all_gather(const std::string& own) = 0;
  virtual void broadcast(std::string& bytes, int64_t root) = 0;  // resizes `bytes` on other ranks
  virtual void all_reduce(std::span<double> x, Reduction r) = 0;

  // Ends the process of every rank. Only main calls it, after it has printed the reason.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// Returns the communicator of a group with one rank, in any world.
std::unique_ptr<Communicator> self_communicator(int64_t rank);

// Returns a World of one rank, without MPI.
std::unique_ptr<World> self_world();
// Returns a World of the ranks that mpirun or srun started. Initializes MPI; the destructor
// finalizes it, except during stack unwinding: then the process ends without MPI_Finalize, and
// mpirun ends the other ranks. Several threads may call it and its communicators, but only one at a
// time. Throws Error if MPI fails or lacks MPI_THREAD_SERIALIZED.
std::unique_ptr<World> mpi_world();

// Staging memory of MPI transfers, in bytes per group that reduces. It is outside the arena.
constexpr int64_t kStagingBytes = 4 << 20;

// Returns a World of ranks with one GPU each, which NCCL connects without copies through the host.
// Transfers are enqueued in the stream given to Communicator::use() and are done for the host at
// once; later work in that stream sees their results. Sums are those of comm/communicator.h, bit
// for bit: every rank sends each other rank its part, and adds the received parts in the order of
// ranks.
//
// `host` transfers the identifiers of communicators between ranks, executes all calls other than
// those of groups, and must outlive the returned world. Throws Error if NCCL is not installed.
std::unique_ptr<World> nccl_world(World& host);

// Staging memory of NCCL transfers, in bytes of device memory per group. It is outside the arena.
constexpr int64_t kNcclStagingBytes = 64 << 20;

}  // namespace tessera::comm
