// A World of one rank: every transfer is a copy that completes at once. Also the functions that all
// communicators share.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "comm/reduce.h"
#include "comm/world.h"

namespace tessera::comm {
namespace {

void copy(const TensorView& from, const TensorView& to, int64_t elements) {
  CHECK(from.dtype == to.dtype && from.elements() >= elements && to.elements() >= elements,
        "{} elements from {} to {}", elements, from.elements(), to.elements());
  if (from.data != to.data) std::memcpy(to.data, from.data, elements * size_of(from.dtype));
}

class SelfCommunicator : public Communicator {
 public:
  explicit SelfCommunicator(int64_t rank) : Communicator({rank}, rank) {}

  Ticket all_reduce(const TensorView& in, const TensorView& out, Reduction) override {
    copy(in, out, in.elements());
    return over();
  }
  Ticket reduce_scatter(const TensorView& whole, const TensorView& part,
                        const ReduceScatterForm& how) override {
    // The sum has this one term. The part may have a wider dtype, or be added to.
    const std::array<const std::byte*, 1> terms = {whole.as<std::byte>()};
    if (part.data != whole.data)
      reduce_in_order({.terms = terms,
                       .in = whole.dtype,
                       .n = whole.elements(),
                       .out = part.as<std::byte>(),
                       .out_type = part.dtype,
                       .add = how.add});
    // Padding of the last shard becomes zero, as in the other worlds.
    const int64_t beyond = part.elements() - whole.elements();
    if (beyond > 0 && !how.add)
      std::memset(part.as<std::byte>() + whole.elements() * size_of(part.dtype), 0,
                  beyond * size_of(part.dtype));
    return over();
  }
  Ticket all_gather(const TensorView& part, const TensorView& whole, int64_t) override {
    copy(part, whole, whole.elements());
    return over();
  }
  Ticket all_to_all(const TensorView& in, const TensorView& out) override {
    copy(in, out, in.elements());
    return over();
  }
  Ticket rotate(const TensorView& in, const TensorView& out) override {
    copy(in, out, in.elements());
    return over();
  }
  Ticket send(const TensorView&, int64_t peer) override { no_peer(peer); }
  Ticket receive(const TensorView&, int64_t peer) override { no_peer(peer); }
  bool progress() override { return false; }
  std::vector<int64_t> missing() const override { return {}; }

 private:
  [[noreturn]] void no_peer(int64_t peer) {
    CHECK(false, "send or receive with peer {} in a group of one rank", peer);
  }
  Ticket over() {
    const Ticket t = open();
    close(t);
    return t;
  }
};

class SelfWorld : public World {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  const std::string& host(int64_t) const override { return host_; }
  std::unique_ptr<Communicator> group(std::span<const int64_t> ranks) override {
    CHECK(ranks.size() == 1 && ranks[0] == 0, "a group of {} in a world of 1", ranks.size());
    return self_communicator(0);
  }
  std::string transport() const override { return "one rank"; }
  void barrier() override {}
  std::vector<std::string> all_gather(const std::string& own) override { return {own}; }
  void broadcast(std::string&, int64_t) override {}
  void all_reduce(std::span<double>, Reduction) override {}
  [[noreturn]] void abort(int exit_code) override { std::exit(exit_code); }

 private:
  std::string host_ = "this machine";
};

}  // namespace

Communicator::Communicator(std::vector<int64_t> ranks, int64_t own_rank)
    : ranks_(std::move(ranks)),
      rank_(std::find(ranks_.begin(), ranks_.end(), own_rank) - ranks_.begin()) {
  CHECK(rank_ < size(), "rank {} is not in its group", own_rank);
}

bool Communicator::done(Ticket t) const {
  return t <= last_ && std::find(open_.begin(), open_.end(), t) == open_.end();
}

// Tickets count up by one. A transfer is done if its ticket has been issued and is no longer open.
// Few are open at a time, so a linear search is fast enough.
Ticket Communicator::open() {
  open_.push_back(++last_);
  return last_;
}

void Communicator::close(Ticket t) { std::erase(open_, t); }

std::unique_ptr<Communicator> self_communicator(int64_t rank) {
  return std::make_unique<SelfCommunicator>(rank);
}

std::unique_ptr<World> self_world() { return std::make_unique<SelfWorld>(); }

}  // namespace tessera::comm
