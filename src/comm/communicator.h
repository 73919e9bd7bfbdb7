// A group of ranks and the transfers between them.
//
// No call here waits. A transfer is started, advances only inside progress(), and is complete when
// done() returns true. Until then its memory belongs to it: two transfers in flight share no memory
// that either of them writes. Collectives of a communicator complete in the order in which they
// were started, and every rank of the group starts the same ones in the same order. The same holds
// for its sends, and for its receives. The three queues do not wait for each other.
//
// Results depend only on the inputs: element i of a sum is ((x0 + x1) + x2) + … in the order of the
// group's ranks, in f32 for f32 and bf16 (rounded once, at the end) and in f64 for f64. Timing,
// message sizes and addresses do not matter.
//
// Parts: of `whole`, n elements, rank r has [r · share, (r + 1) · share), as far as it exists.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/gpu.h"
#include "tensor/tensor.h"

namespace tessera::comm {

enum class Reduction : uint8_t { kSum, kMax };  // the maximum of what has a NaN is NaN

using Ticket = int64_t;  // of a transfer, from 1

struct ReduceScatterForm {
  int64_t share = 0;
  Reduction reduction = Reduction::kSum;
  bool add = false;  // to what is in `part`
};

class Communicator {
 public:
  explicit Communicator(std::vector<int64_t> ranks, int64_t own_rank);
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::vector<int64_t>& ranks() const { return ranks_; }  // their numbers in the world
  int64_t size() const { return std::ssize(ranks_); }
  int64_t rank() const { return rank_; }  // which of them this is

  // f32, bf16 or f64; `out` is `in` or elsewhere.
  virtual Ticket all_reduce(const TensorView& in, const TensorView& out, Reduction r) = 0;
  // `part` lies in its place in `whole`, or elsewhere; it may be f32 where `whole` is bf16. What it
  // has beyond its elements of the whole becomes zero (and stays what it is with `add`).
  virtual Ticket reduce_scatter(const TensorView& whole, const TensorView& part,
                                const ReduceScatterForm& how) = 0;
  // Any type. `part` lies in its place in `whole`, or elsewhere, and has at least its elements.
  virtual Ticket all_gather(const TensorView& part, const TensorView& whole, int64_t share) = 0;
  // Any type; `peer` is a place in the group. Receiver and sender agree on the bytes.
  virtual Ticket send(const TensorView& x, int64_t peer) = 0;
  virtual Ticket receive(const TensorView& x, int64_t peer) = 0;

  // Of memory of a device: whether transfers are work of a stream, which use() names for those that
  // follow, and over for the host at once.
  virtual bool is_on_stream() const { return false; }
  virtual void use(Stream) {}
  // Allocates the memory that sums need outside of the arena, so that no transfer allocates.
  virtual void prepare_sums() {}
  // Returns true if the caller must order, by events, the transfers of several communicators of
  // this device, which may otherwise deadlock.
  virtual bool needs_order() const { return false; }
  // After an Error: transfers that wait on the device end, with nothing that can be used.
  virtual void abandon() {}

  // Moves what can move without waiting; false if nothing did. Throws Error if a peer is lost.
  virtual bool progress() = 0;
  bool done(Ticket t) const;
  // Ranks of the world from which something is expected, or that have not taken what was sent.
  virtual std::vector<int64_t> missing() const = 0;
  int64_t bytes_sent() const { return bytes_sent_; }  // so far

 protected:
  Ticket open();
  void close(Ticket t);
  void count_sent(int64_t bytes) { bytes_sent_ += bytes; }

 private:
  std::vector<int64_t> ranks_;
  int64_t rank_;
  Ticket last_ = 0;
  std::vector<Ticket> open_;  // few
  int64_t bytes_sent_ = 0;
};

}  // namespace tessera::comm
