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

  // The communicator of a group, which `ranks` (rising or not, this one among them) lists in its
  // order. Every rank of the group calls it with the same list; ranks that share several groups
  // make them in the same order. Each has messages of its own: groups of the same ranks never mix.
  virtual std::unique_ptr<Communicator> group(std::span<const int64_t> ranks) = 0;

  // Returns true if the transfers of one communicator run one after another, whatever their
  // direction: a waiting receive then delays the sends after it.
  virtual bool takes_turns() const { return false; }
  // The transport between ranks, for the log.
  virtual std::string transport() const { return "MPI"; }

  // For setting up and reporting; these wait for all ranks.
  virtual void barrier() = 0;
  virtual std::vector<std::string> all_gather(const std::string& own) = 0;
  virtual void broadcast(std::string& bytes, int64_t root) = 0;  // resizes where it arrives
  virtual void all_reduce(std::span<double> x, Reduction r) = 0;

  // Ends the process on every rank; for main, once it has said why.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// Of a group of one rank, in any world.
std::unique_ptr<Communicator> self_communicator(int64_t rank);

// One rank, without MPI.
std::unique_ptr<World> self_world();
// What mpirun or srun started. Threads may call it and its communicators one at a time. Starts MPI
// and ends it with its destructor, but not where an exception is passing: then the process ends
// without, at which mpirun ends the other ranks.
std::unique_ptr<World> mpi_world();

// Memory that MPI's transfers take outside of the arena: this much for each group that reduces.
constexpr int64_t kStagingBytes = 4 << 20;

// Ranks with a GPU each, by NCCL: messages between devices, without the host. Transfers are
// enqueued in the stream that Communicator::use() names and over for the host at once; what comes
// after them in the stream finds their results. Sums are those of comm/communicator.h, bit for
// bit: every rank sends each other rank its part, and adds what comes in the order of ranks.
//
// `host` brings the ranks together (identifiers of communicators go through it), answers all that
// is not a group, and outlives the world. Throws Error where NCCL is not installed.
std::unique_ptr<World> nccl_world(World& host);

// Memory of the device that a group's transfers take outside of the arena.
constexpr int64_t kNcclStagingBytes = 64 << 20;

}  // namespace tessera::comm
