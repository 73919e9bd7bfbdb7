// Collectives as steps of point-to-point messages (transfer.h). Every rank sends its pieces
// directly to every other rank instead of around a ring: a ring adds in an order that differs per
// element, while here each rank has all terms of its part and adds them in the order of ranks.
// The bytes per rank are those of a ring, (n - 1) / n of the whole for each of reduce-scatter and
// all-gather.
//
//   whole, 3 ranks:   | part 0: piece 0, piece 1, … | part 1: … | part 2: … |
//   step c of reduce_scatter on rank 1:
//     sends     piece c of parts 0 and 2 to ranks 0 and 2
//     receives  piece c of part 1 from both, into the staging slot of the step
//     adds      term of rank 0 + own term + term of rank 2
//
// The staging memory is divided into kStepsInFlight slots of one piece per peer.
#include "comm/transfer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "comm/reduce.h"

namespace tessera::comm {
namespace {

// Size of messages that need no staging: large enough that their fixed cost is negligible, and
// within MPI's int counts.
constexpr int64_t kPieceBytes = 1 << 20;
// Below this an all_reduce is a single step: a second one would cost more time than the bytes it
// saves.
constexpr int64_t kSmallBytes = 8 << 10;
constexpr int64_t kAlignment = 16;  // elements

int64_t divide(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Elements [begin, end) of the whole.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Divides n elements into parts of `share` elements, and each part into pieces of `piece` elements.
struct Parts {
  int64_t n = 0, share = 0, piece = 0;

  Range part(int64_t rank) const {
    return {std::min(n, rank * share), std::min(n, (rank + 1) * share)};
  }
  Range cut(int64_t rank, int64_t step) const {
    const Range p = part(rank);
    const int64_t begin = std::min(p.end, p.begin + step * piece);
    return {begin, std::min(p.end, begin + piece)};
  }
  int64_t steps() const { return divide(std::min(n, share), piece); }
};

// Calls f for every other rank, starting with the next one, so that not all send to the same rank
// first.
template <class F>
void each_peer(const Member& m, const F& f) {
  for (int64_t k = 1; k < m.size; ++k) f((m.rank + k) % m.size);
}

void add(std::vector<PeerMessage>& to, std::byte* data, int64_t bytes, int64_t peer,
         bool receives) {
  if (bytes > 0) to.push_back({data, bytes, peer, receives});
}

// Returns the bytes that one peer sends per step.
int64_t staged_bytes(const Member& m) {
  constexpr int64_t kLine = kLeastStagedBytes;
  const int64_t peers = std::max<int64_t>(m.size - 1, 1);
  return staging_bytes(m.size) / kStepsInFlight / peers / kLine * kLine;
}

// Returns where the piece of a peer is stored until it is added.
std::byte* staged(const Member& m, const Step& step, int64_t peer) {
  const int64_t bytes = staging_bytes(m.size) / kStepsInFlight;
  const int64_t place = peer < m.rank ? peer : peer - 1;
  return m.staging + step.slot * bytes + staged_bytes(m) * place;
}

// Adds all terms in the order of ranks; `own` is this rank's term.
void add_up(const Member& m, const Step& step, const std::byte* own, Reduce r) {
  std::vector<const std::byte*> terms;
  for (int64_t rank = 0; rank < m.size; ++rank)
    terms.push_back(rank == m.rank ? own : staged(m, step, rank));
  r.terms = terms;
  reduce_in_order(r);
}

void clear_beyond(const TensorView& part, int64_t count) {
  if (part.elements() > count)
    std::memset(part.at(count), 0, (part.elements() - count) * size_of(part.dtype));
}

// Every rank sends its whole operand to all others and adds all of them: n - 1 times the bytes, but
// one message latency instead of two.
Transfer small_all_reduce(const Member& m, const TensorView& in, const TensorView& out,
                          Reduction r) {
  Transfer t;
  t.steps = 1;
  t.messages = [=](const Step& step, std::vector<PeerMessage>& to) {
    each_peer(m, [&](int64_t d) { add(to, staged(m, step, d), in.bytes(), d, true); });
    each_peer(m, [&](int64_t d) { add(to, in.at(0), in.bytes(), d, false); });
  };
  t.finish = [=](const Step& step) {
    add_up(m, step, in.at(0),
           {.in = in.dtype,
            .n = in.elements(),
            .out = out.at(0),
            .out_type = out.dtype,
            .reduction = r});
  };
  return t;
}

}  // namespace

Transfer reduce_scatter_transfer(const Member& m, const TensorView& whole, const TensorView& part,
                                 const ReduceScatterForm& how) {
  const Parts parts = {whole.elements(), how.share, staged_bytes(m) / size_of(whole.dtype)};
  const int64_t own = parts.part(m.rank).size();
  CHECK(how.share * m.size >= whole.elements() && part.elements() >= own,
        "{} elements in {} parts of {}; the own one has {}", whole.elements(), m.size, how.share,
        part.elements());
  Transfer t;
  t.steps = parts.steps();
  t.messages = [=](const Step& step, std::vector<PeerMessage>& to) {
    const int64_t bytes = parts.cut(m.rank, step.index).size() * size_of(whole.dtype);
    // Receives are posted first, so that a message finds its buffer when it arrives.
    each_peer(m, [&](int64_t d) { add(to, staged(m, step, d), bytes, d, true); });
    each_peer(m, [&](int64_t d) {
      const Range c = parts.cut(d, step.index);
      add(to, whole.at(c.begin), c.size() * size_of(whole.dtype), d, false);
    });
  };
  t.finish = [=](const Step& step) {
    const Range c = parts.cut(m.rank, step.index);
    add_up(m, step, whole.at(c.begin),
           {.in = whole.dtype,
            .n = c.size(),
            .out = part.at(step.index * parts.piece),
            .out_type = part.dtype,
            .reduction = how.reduction,
            .add = how.add});
    if (step.index + 1 == parts.steps() && !how.add) clear_beyond(part, own);
  };
  return t;
}

Transfer all_gather_transfer(const Member& m, const TensorView& part, const TensorView& whole,
                             int64_t share) {
  const int64_t size = size_of(whole.dtype);
  const Parts parts = {whole.elements(), share, kPieceBytes / size};
  const int64_t own = parts.part(m.rank).size();
  CHECK(share * m.size >= whole.elements() && part.elements() >= own && part.dtype == whole.dtype,
        "{} elements from {} parts of {}; the own one has {}", whole.elements(), m.size, share,
        part.elements());
  Transfer t;
  t.steps = parts.steps();
  t.messages = [=](const Step& step, std::vector<PeerMessage>& to) {
    each_peer(m, [&](int64_t d) {
      const Range c = parts.cut(d, step.index);
      add(to, whole.at(c.begin), c.size() * size, d, true);
    });
    const int64_t bytes = parts.cut(m.rank, step.index).size() * size;
    each_peer(m, [&](int64_t d) { add(to, part.at(step.index * parts.piece), bytes, d, false); });
  };
  t.finish = [=](const Step& step) {
    std::byte* place = whole.at(parts.part(m.rank).begin);
    if (step.index == 0 && place != part.data) std::memcpy(place, part.data, own * size);
  };
  return t;
}

Transfer all_to_all_transfer(const Member& m, const TensorView& in, const TensorView& out) {
  const int64_t size = size_of(in.dtype), n = in.elements();
  CHECK(n % m.size == 0 && out.elements() == n && out.dtype == in.dtype,
        "all_to_all of {} {} to {} {} among {} ranks", n, name_of(in.dtype), out.elements(),
        name_of(out.dtype), m.size);
  const Parts parts = {n, n / m.size, kPieceBytes / size};
  Transfer t;
  t.steps = parts.steps();
  t.messages = [=](const Step& step, std::vector<PeerMessage>& to) {
    const auto each = [&](const TensorView& x, bool receives) {
      each_peer(m, [&](int64_t d) {
        const Range c = parts.cut(d, step.index);
        add(to, x.at(c.begin), c.size() * size, d, receives);
      });
    };
    each(out, true);
    each(in, false);
  };
  t.finish = [=](const Step& step) {
    const int64_t own = parts.part(m.rank).begin;
    if (step.index == 0) std::memcpy(out.at(own), in.at(own), parts.share * size);
  };
  return t;
}

Transfer rotate_transfer(const Member& m, const TensorView& in, const TensorView& out) {
  const int64_t bytes = in.bytes(), next = (m.rank + 1) % m.size;
  CHECK(m.size > 1 && out.bytes() == bytes && out.dtype == in.dtype,
        "rotate of {} bytes to {} bytes among {} ranks", bytes, out.bytes(), m.size);
  Transfer t;
  t.steps = (bytes + kPieceBytes - 1) / kPieceBytes;
  t.messages = [=](const Step& step, std::vector<PeerMessage>& to) {
    const int64_t begin = step.index * kPieceBytes, n = std::min(kPieceBytes, bytes - begin);
    add(to, out.as<std::byte>() + begin, n, (m.rank + m.size - 1) % m.size, true);
    add(to, in.as<std::byte>() + begin, n, next, false);
  };
  return t;
}

Transfer all_reduce_transfer(const Member& m, const TensorView& in, const TensorView& out,
                             Reduction r) {
  CHECK(in.elements() == out.elements() && in.dtype == out.dtype, "all_reduce of {} {} to {} {}",
        in.elements(), name_of(in.dtype), out.elements(), name_of(out.dtype));
  if (in.bytes() <= std::min(kSmallBytes, staged_bytes(m))) return small_all_reduce(m, in, out, r);
  // Two phases: reduce-scatter, then all-gather of the parts.
  const int64_t share = divide(divide(in.elements(), m.size), kAlignment) * kAlignment;
  const Parts parts = {in.elements(), share, 1};
  const Range own = parts.part(m.rank);
  const TensorView part = {out.at(own.begin), out.dtype, Shape{own.size()}};
  const Transfer reduce = reduce_scatter_transfer(m, in, part, {share, r, false});
  const Transfer gather = all_gather_transfer(m, part, out, share);
  Transfer t;
  t.steps = reduce.steps + gather.steps;
  t.barrier = reduce.steps;  // the gather overwrites the terms that the first phase sends
  t.messages = [=](const Step& step, std::vector<PeerMessage>& to) {
    if (step.index < reduce.steps) return reduce.messages(step, to);
    gather.messages({step.index - reduce.steps, step.slot}, to);
  };
  t.finish = [=](const Step& step) {
    if (step.index < reduce.steps) return reduce.finish(step);
    gather.finish({step.index - reduce.steps, step.slot});
  };
  return t;
}

Transfer message_transfer(const TensorView& x, int64_t peer, bool receives) {
  Transfer t;
  t.steps = divide(x.bytes(), kPieceBytes);
  t.messages = [=](const Step& step, std::vector<PeerMessage>& to) {
    const int64_t begin = step.index * kPieceBytes;
    add(to, x.as<std::byte>() + begin, std::min(kPieceBytes, x.bytes() - begin), peer, receives);
  };
  return t;
}

}  // namespace tessera::comm
