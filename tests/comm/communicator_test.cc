#include <cmath>
#include <cstring>

#include "tests/comm/ranks.h"

namespace tessera::testing {
namespace {

constexpr DType kSummed[] = {DType::kF32, DType::kBF16, DType::kF64};
constexpr DType kCarried[] = {DType::kF32, DType::kBF16, DType::kF64,
                              DType::kI32, DType::kI64,  DType::kU8};
// Uneven over any group, small, and beyond what the staging memory holds at once.
constexpr int64_t kSizes[] = {1, 5, 64, 1000, 4099, 300'007};

uint64_t key_of(int64_t rank, int64_t salt) { return static_cast<uint64_t>(1000 * salt + rank); }

// What rank `rank` holds at the start.
Tensor input(DType type, int64_t n, int64_t rank, int64_t salt) {
  return std::move(Tensor(type, n).draw(key_of(rank, salt)));
}

double reduced(double a, double b, comm::Reduction r) {
  if (r == comm::Reduction::kSum) return a + b;
  return a > b || std::isnan(a) ? a : b;
}

double element(const Tensor& t, int64_t i) {
  switch (t.view.dtype) {
    case DType::kF32:
      return t.view.as<float>()[i];
    case DType::kBF16:
      return static_cast<float>(t.view.as<BF16>()[i]);
    default:
      return t.view.as<double>()[i];
  }
}

// The definition, element by element, in f32 or f64.
Tensor expected(DType type, int64_t n, int64_t salt, comm::Reduction r, DType out_type) {
  std::vector<Tensor> terms;
  for (int64_t k = 0; k < ranks().size(); ++k) terms.push_back(input(type, n, k, salt));
  Tensor out(out_type, n);
  for (int64_t i = 0; i < n; ++i) {
    double sum = element(terms[0], i);
    for (size_t k = 1; k < terms.size(); ++k) {
      sum = reduced(sum, element(terms[k], i), r);
      if (type != DType::kF64) sum = static_cast<float>(sum);
    }
    out.set(i, sum);
  }
  return out;
}
Tensor expected(DType type, int64_t n, int64_t salt, comm::Reduction r = comm::Reduction::kSum) {
  return expected(type, n, salt, r, type);
}

int64_t share_of(int64_t n) { return (n + ranks().size() - 1) / ranks().size(); }
int64_t own_begin(int64_t n) { return std::min(n, ranks().rank() * share_of(n)); }
int64_t own_count(int64_t n) { return std::min(n, own_begin(n) + share_of(n)) - own_begin(n); }

TEST(Communicator, AllReduceIsTheSumInRankOrder) {
  const auto all = everyone();
  for (const DType type : kSummed)
    for (const int64_t n : kSizes)
      for (const comm::Reduction r : {comm::Reduction::kSum, comm::Reduction::kMax}) {
        const Tensor want = expected(type, n, n, r);
        const Tensor in = input(type, n, ranks().rank(), n);
        Tensor out(type, n);
        finish(*all, all->all_reduce(in.view, out.view, r));
        EXPECT_EQ(out, want) << name_of(type) << " × " << n;
        EXPECT_EQ(in, input(type, n, ranks().rank(), n)) << "the input changed";
        finish(*all, all->all_reduce(in.view, in.view, r));
        EXPECT_EQ(in, want) << name_of(type) << " × " << n << " in place";
      }
}

TEST(Communicator, TheMaximumKeepsNoNumbers) {
  const auto all = everyone();
  Tensor x(DType::kF32, 3);
  for (int64_t i = 0; i < 3; ++i)
    x.set(i, i == ranks().rank() ? std::nan("") : static_cast<double>(ranks().rank()));
  finish(*all, all->all_reduce(x.view, x.view, comm::Reduction::kMax));
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(std::isnan(x.view.f32()[i]), i < ranks().size()) << "element " << i;
}

TEST(Communicator, ReduceScatterLeavesTheOwnPart) {
  const auto all = everyone();
  for (const DType type : kSummed)
    for (const int64_t n : kSizes) {
      const Tensor want = expected(type, n, n + 1);
      const Tensor in = input(type, n, ranks().rank(), n + 1);
      const int64_t share = share_of(n), begin = own_begin(n), count = own_count(n);
      Tensor part(type, share);
      part.draw(7);
      finish(*all, all->reduce_scatter(in.view, part.view, {share}));
      for (int64_t i = 0; i < share; ++i)
        ASSERT_EQ(element(part, i), i < count ? element(want, begin + i) : 0.0)
            << name_of(type) << " × " << n << " element " << i;
      finish(*all, all->reduce_scatter(in.view, in.part(begin, count), {share}));
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(element(in, begin + i), element(want, begin + i)) << "in place, element " << i;
    }
}

TEST(Communicator, ReduceScatterAddsToF32) {
  const auto all = everyone();
  const int64_t n = 70'001, share = share_of(n), begin = own_begin(n), count = own_count(n);
  const Tensor want = expected(DType::kBF16, n, 3, comm::Reduction::kSum, DType::kF32);
  const Tensor in = input(DType::kBF16, n, ranks().rank(), 3);
  Tensor part(DType::kF32, share);
  part.draw(8);
  Tensor before(DType::kF32, share);
  before.draw(8);
  finish(*all, all->reduce_scatter(in.view, part.view, {.share = share, .add = true}));
  for (int64_t i = 0; i < share; ++i) {
    float sum = before.view.f32()[i];
    if (i < count) sum += want.view.f32()[begin + i];
    ASSERT_EQ(part.view.f32()[i], sum) << "element " << i;
  }
}

TEST(Communicator, SharesMayBeLargerThanNeeded) {
  const auto all = everyone();
  const int64_t n = 100, share = 64;  // the last ranks have nothing
  if (share * ranks().size() < n) return;
  const Tensor want = expected(DType::kF32, n, 5);
  const Tensor in = input(DType::kF32, n, ranks().rank(), 5);
  Tensor part(DType::kF32, share), whole(DType::kF32, n);
  finish(*all, all->reduce_scatter(in.view, part.view, {share}));
  finish(*all, all->all_gather(part.view, whole.view, share));
  EXPECT_EQ(whole, want);
}

TEST(Communicator, AllGatherJoinsAnyType) {
  const auto all = everyone();
  for (const DType type : kCarried)
    for (const int64_t n : kSizes) {
      const Tensor want = input(type, n, 0, 9);
      const int64_t share = share_of(n), begin = own_begin(n), count = own_count(n);
      Tensor part(type, share), whole(type, n), place(type, n);
      std::memcpy(part.view.data, want.part(begin, count).data,
                  static_cast<size_t>(want.part(0, count).bytes()));
      finish(*all, all->all_gather(part.view, whole.view, share));
      EXPECT_EQ(whole, want) << name_of(type) << " × " << n;
      const TensorView own = place.part(begin, count);
      std::memcpy(own.data, part.view.data, static_cast<size_t>(own.bytes()));
      finish(*all, all->all_gather(own, place.view, share));
      EXPECT_EQ(place, want) << name_of(type) << " × " << n << " in place";
    }
}

TEST(Communicator, AllToAllGivesEachRankItsChunk) {
  const auto all = everyone();
  const int64_t ranks_of_all = ranks().size(), own = ranks().rank();
  for (const DType type : kCarried)
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{1000}, int64_t{300'001}}) {
      if (chunk > 1000 && type != DType::kF32) continue;  // one in several pieces
      const int64_t n = chunk * ranks_of_all;
      Tensor to(type, n);
      finish(*all, all->all_to_all(input(type, n, own, 12).view, to.view));
      for (int64_t k = 0; k < ranks_of_all; ++k) {
        const Tensor from = input(type, n, k, 12);
        EXPECT_EQ(std::memcmp(to.part(k * chunk, chunk).data, from.part(own * chunk, chunk).data,
                              static_cast<size_t>(chunk * size_of(type))),
                  0)
            << name_of(type) << " × " << chunk << " from rank " << k;
      }
    }
}

TEST(Communicator, RotateGivesEachRankThePreviousValue) {
  if (ranks().size() == 1) return;
  const auto all = everyone();
  const int64_t own = ranks().rank(), previous = (own + ranks().size() - 1) % ranks().size();
  for (const DType type : kCarried)
    for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{1000}, int64_t{600'001}}) {
      Tensor to(type, n);
      finish(*all, all->rotate(input(type, n, own, 13).view, to.view));
      const Tensor from = input(type, n, previous, 13);
      EXPECT_EQ(std::memcmp(to.view.data, from.view.data, static_cast<size_t>(to.view.bytes())), 0)
          << name_of(type) << " × " << n;
    }
}

TEST(Communicator, MessagesArriveInOrder) {
  if (ranks().size() == 1) return;
  const auto all = everyone();
  const int64_t next = (ranks().rank() + 1) % ranks().size();
  const int64_t before = (ranks().rank() + ranks().size() - 1) % ranks().size();
  std::vector<Tensor> out, in;
  std::vector<comm::Ticket> tickets;
  for (int64_t k = 0; k < 12; ++k) {
    const DType type = kCarried[k % 6];
    const int64_t n = k == 5 ? 2'500'000 : 1 + 997 * k;  // one in several pieces
    out.push_back(input(type, n, ranks().rank(), 20 + k));
    in.emplace_back(type, n);
  }
  for (size_t k = 0; k < 12; ++k) {
    tickets.push_back(all->send(out[k].view, next));
    tickets.push_back(all->receive(in[k].view, before));
  }
  for (size_t t = tickets.size(); t-- > 0;) finish(*all, tickets[t]);
  for (int64_t k = 0; k < 12; ++k)
    EXPECT_EQ(in[static_cast<size_t>(k)],
              input(in[static_cast<size_t>(k)].view.dtype,
                    in[static_cast<size_t>(k)].view.elements(), before, 20 + k))
        << "message " << k;
}

// Sends wait for no collective, and a collective for no send.
TEST(Communicator, LinesDoNotWaitForEachOther) {
  if (ranks().size() < 2) return;
  const auto all = everyone();
  Tensor x = input(DType::kF32, 100'000, ranks().rank(), 30), y(DType::kF32, 100'000);
  const comm::Ticket sum =
      ranks().rank() == 0 ? 0 : all->all_reduce(x.view, x.view, comm::Reduction::kSum);
  if (ranks().rank() == 0) {
    finish(*all, all->receive(y.view, 1));  // rank 1 is in the sum that this rank has not begun
    finish(*all, all->all_reduce(x.view, x.view, comm::Reduction::kSum));
  } else if (ranks().rank() == 1) {
    const Tensor own = input(DType::kF32, 100'000, 1, 30);
    finish(*all, all->send(own.view, 0));
  }
  if (sum != 0) finish(*all, sum);
  EXPECT_EQ(x, expected(DType::kF32, 100'000, 30));
  if (ranks().rank() == 0) {
    EXPECT_EQ(y, input(DType::kF32, 100'000, 1, 30));
  }
}

// Communicators of the same ranks, started in another order on every rank, moved on in another one.
TEST(Communicator, CommunicatorsNeverMix) {
  constexpr size_t kMany = 5;
  std::vector<std::unique_ptr<comm::Communicator>> groups;
  std::vector<Tensor> x;
  for (size_t g = 0; g < kMany; ++g) {
    groups.push_back(everyone());
    x.push_back(input(DType::kF32, 50'000, ranks().rank(), 40 + static_cast<int64_t>(g)));
  }
  std::vector<comm::Ticket> tickets(kMany);
  const auto turn = [](size_t k) { return (k + static_cast<size_t>(ranks().rank())) % kMany; };
  for (size_t k = 0; k < kMany; ++k)
    tickets[turn(k)] =
        groups[turn(k)]->all_reduce(x[turn(k)].view, x[turn(k)].view, comm::Reduction::kSum);
  comm::Backoff backoff;
  for (bool over = false; !over; backoff.pause()) {
    over = true;
    for (size_t k = 0; k < kMany; ++k) {
      groups[turn(k)]->progress();
      over = over && groups[turn(k)]->done(tickets[turn(k)]);
    }
  }
  for (size_t g = 0; g < kMany; ++g)
    EXPECT_EQ(x[g], expected(DType::kF32, 50'000, 40 + static_cast<int64_t>(g)));
}

TEST(Communicator, GroupsOfSomeRanks) {
  const int64_t own = ranks().rank(), n = 3000;
  std::vector<int64_t> mine;  // even and odd ranks, the odd ones in falling order
  for (int64_t r = own % 2; r < ranks().size(); r += 2) mine.push_back(r);
  if (own % 2 == 1) std::reverse(mine.begin(), mine.end());
  const auto group = ranks().group(mine);
  ASSERT_EQ(group->ranks(), mine);
  EXPECT_EQ(group->ranks()[static_cast<size_t>(group->rank())], own);
  Tensor x = input(DType::kF32, n, own, 50);
  finish(*group, group->all_reduce(x.view, x.view, comm::Reduction::kSum));
  Tensor want = input(DType::kF32, n, mine[0], 50);
  for (size_t k = 1; k < mine.size(); ++k) {
    const Tensor term = input(DType::kF32, n, mine[k], 50);
    for (int64_t i = 0; i < n; ++i) want.view.f32()[i] += term.view.f32()[i];
  }
  EXPECT_EQ(x, want);
}

TEST(Communicator, KnowsWhomItWaitsFor) {
  if (ranks().size() < 2) return;
  const auto all = everyone();
  Tensor x = input(DType::kF32, 100'000, ranks().rank(), 60);
  const int64_t late = ranks().size() - 1;
  if (ranks().rank() != late) {
    const comm::Ticket t = all->all_reduce(x.view, x.view, comm::Reduction::kSum);
    for (int k = 0; k < 2000; ++k) all->progress();
    EXPECT_FALSE(all->done(t));
    const auto missing = all->missing();
    EXPECT_NE(std::find(missing.begin(), missing.end(), late), missing.end());
    ranks().barrier();
    finish(*all, t);
  } else {
    ranks().barrier();
    finish(*all, all->all_reduce(x.view, x.view, comm::Reduction::kSum));
  }
  EXPECT_TRUE(all->missing().empty());
  EXPECT_EQ(x, expected(DType::kF32, 100'000, 60));
}

TEST(Communicator, CountsWhatItSends) {
  const auto all = everyone();
  const int64_t n = 64 * ranks().size(), others = ranks().size() - 1;
  Tensor x = input(DType::kF32, n, ranks().rank(), 70);
  Tensor part(DType::kF32, 64);
  finish(*all, all->reduce_scatter(x.view, part.view, {64}));
  EXPECT_EQ(all->bytes_sent(), others * 64 * 4);
  finish(*all, all->all_gather(part.view, x.view, 64));
  EXPECT_EQ(all->bytes_sent(), 2 * others * 64 * 4);
}

TEST(Communicator, RepeatsBitForBit) {
  const auto all = everyone();
  const Tensor want = expected(DType::kF32, 200'003, 80);
  for (int k = 0; k < 20; ++k) {
    Tensor x = input(DType::kF32, 200'003, ranks().rank(), 80);
    finish(*all, all->all_reduce(x.view, x.view, comm::Reduction::kSum));
    ASSERT_EQ(x, want) << "run " << k;
  }
}

TEST(World, SetsUp) {
  comm::World& world = ranks();
  const std::vector<std::string> words =
      world.all_gather(std::string(static_cast<size_t>(world.rank()), 'x'));
  ASSERT_EQ(static_cast<int64_t>(words.size()), world.size());
  for (int64_t r = 0; r < world.size(); ++r)
    EXPECT_EQ(words[static_cast<size_t>(r)].size(), static_cast<size_t>(r));
  for (int64_t r = 0; r < world.size(); ++r) {
    std::string bytes = world.rank() == r ? "from " + std::to_string(r) : "";
    world.broadcast(bytes, r);
    EXPECT_EQ(bytes, "from " + std::to_string(r));
    EXPECT_FALSE(world.host(r).empty());
  }
  std::vector<double> x = {1.0, static_cast<double>(world.rank())};
  world.all_reduce(x, comm::Reduction::kSum);
  EXPECT_EQ(x[0], static_cast<double>(world.size()));
  world.all_reduce({x.data() + 1, 1}, comm::Reduction::kMax);
  world.barrier();
}

}  // namespace
}  // namespace tessera::testing
