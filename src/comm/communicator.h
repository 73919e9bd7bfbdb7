// A group of ranks and the transfers between them.
//
// No call here waits. A transfer is started, advances only inside progress(), and is complete when
// done() returns true. Until then the caller must not touch its memory: two transfers in flight
// share no memory that either of them writes. Collectives of a communicator complete in the order
// in which they were started, and every rank of the group starts the same ones in the same order.
// The same holds for its sends, and for its receives. The three queues do not wait for each other.
//
// Results depend only on the inputs: element i of a sum is ((x0 + x1) + x2) + … in the order of the
// group's ranks, in f32 for f32 and bf16 (rounded once, at the end) and in f64 for f64. Timing,
// message sizes and addresses do not matter.
//
// Parts: an array `whole` of n elements is divided among the ranks of the group. The part of rank r
// is elements [r · share, (r + 1) · share), cut off at n.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/gpu.h"
#include "tensor/tensor.h"

namespace tessera::comm {

enum class Reduction : uint8_t { kSum, kMax };  // the maximum is NaN if any term is NaN

using Ticket = int64_t;  // the number of a transfer of its communicator, from 1

struct ReduceScatterForm {
  int64_t share = 0;
  Reduction reduction = Reduction::kSum;
  bool add = false;  // add to the contents of `part` instead of overwriting them
};

class Communicator {
 public:
  explicit Communicator(std::vector<int64_t> ranks, int64_t own_rank);
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::vector<int64_t>& ranks() const { return ranks_; }  // the members' world ranks
  int64_t size() const { return std::ssize(ranks_); }
  int64_t rank() const { return rank_; }  // this rank's index in ranks()

  // dtype: f32, bf16 or f64. `out` is `in` itself or does not overlap it.
  virtual Ticket all_reduce(const TensorView& in, const TensorView& out, Reduction r) = 0;
  // `part` is this rank's part of `whole` in place, or separate memory. It may be f32 if `whole` is
  // bf16. Elements of `part` past this rank's part become zero; with `add` they are unchanged.
  virtual Ticket reduce_scatter(const TensorView& whole, const TensorView& part,
                                const ReduceScatterForm& how) = 0;
  // Any dtype. `part` is this rank's part of `whole` in place, or separate memory, and has at least
  // as many elements as this rank's part.
  virtual Ticket all_gather(const TensorView& part, const TensorView& whole, int64_t share) = 0;
  // Any dtype. `in` and `out` have one chunk of equal size per rank, in the order of ranks, and do
  // not overlap: chunk k of `in` becomes this rank's chunk of `out` on rank k.
  virtual Ticket all_to_all(const TensorView& in, const TensorView& out) = 0;
  // Any dtype. `in` becomes `out` on the next rank of the group, and on the first one for the last.
  // They have equal sizes and do not overlap.
  virtual Ticket rotate(const TensorView& in, const TensorView& out) = 0;
  // Any dtype. `peer` is an index in ranks(). Sender and receiver pass the same number of bytes.
  virtual Ticket send(const TensorView& x, int64_t peer) = 0;
  virtual Ticket receive(const TensorView& x, int64_t peer) = 0;

  // Returns true if transfers work on device memory and are enqueued in a stream, the one given to
  // use() before them. The host then sees them as done at once.
  virtual bool is_on_stream() const { return false; }
  virtual void use(Stream) {}
  // Allocates the memory that sums need outside the arena, so that no transfer allocates.
  virtual void prepare_sums() {}
  // Returns true if the caller must order, by events, the transfers of several communicators of
  // this device, which may otherwise deadlock.
  virtual bool needs_order() const { return false; }
  // Aborts the transfers that are waiting on the device; their results are undefined. For use after
  // an Error.
  virtual void abandon() {}

  // Advances all transfers as far as possible without waiting. Returns false if none advanced.
  // Throws Error if a peer has failed.
  virtual bool progress() = 0;
  bool done(Ticket t) const;
  // Returns the ranks, numbered as in ranks(), with which a message in flight is not complete, in
  // either direction.
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
  std::vector<Ticket> open_;  // transfers that are not complete
  int64_t bytes_sent_ = 0;
};

}  // namespace tessera::comm
