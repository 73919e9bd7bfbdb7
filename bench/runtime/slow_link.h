// Emulates a link of a given rate between ranks of one machine: a transfer is done when its bytes
// have moved and a link of that rate would have moved them, after those that were started before
// it. All-reduces may use another link, which is as fast as the ranks are.
#pragma once

#include <cstdlib>
#include <deque>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "comm/world.h"

namespace tessera {

// The link of a rank to all others, shared by its communicators.
struct SlowLink {
  double bytes_per_s = 0;  // 0: as fast as the transfers themselves
  bool carries_all_reduces = true;
  double free_s = 0;  // when it has sent all bytes so far
  double sent = 0;    // bytes so far

  // Returns when that many bytes more have been sent.
  double send(double bytes) {
    sent += bytes;
    if (bytes_per_s <= 0) return 0;
    free_s = std::max(free_s, steady_s()) + bytes / bytes_per_s;
    return free_s;
  }
};

class SlowCommunicator final : public comm::Communicator {
 public:
  SlowCommunicator(std::unique_ptr<comm::Communicator> inner, SlowLink& link)
      : comm::Communicator(inner->ranks(), inner->ranks()[static_cast<size_t>(inner->rank())]),
        inner_(std::move(inner)),
        link_(link) {}

  // The bytes that a rank sends, with every rank's part sent to each other rank once.
  comm::Ticket all_reduce(const TensorView& in, const TensorView& out, comm::Reduction r) override {
    return add(inner_->all_reduce(in, out, r), 2 * of_others(in.bytes()),
               link_.carries_all_reduces);
  }
  comm::Ticket reduce_scatter(const TensorView& whole, const TensorView& part,
                              const comm::ReduceScatterForm& how) override {
    return add(inner_->reduce_scatter(whole, part, how), of_others(whole.bytes()));
  }
  comm::Ticket all_gather(const TensorView& part, const TensorView& whole, int64_t share) override {
    return add(inner_->all_gather(part, whole, share), of_others(whole.bytes()));
  }
  comm::Ticket all_to_all(const TensorView& in, const TensorView& out) override {
    return add(inner_->all_to_all(in, out), of_others(in.bytes()));
  }
  comm::Ticket rotate(const TensorView& in, const TensorView& out) override {
    return add(inner_->rotate(in, out), static_cast<double>(in.bytes()));
  }
  comm::Ticket send(const TensorView& x, int64_t peer) override {
    return add(inner_->send(x, peer), static_cast<double>(x.bytes()));
  }
  comm::Ticket receive(const TensorView& x, int64_t peer) override {
    return add(inner_->receive(x, peer), 0);
  }
  void prepare_sums() override { inner_->prepare_sums(); }
  std::vector<int64_t> missing() const override { return inner_->missing(); }

  bool progress() override {
    bool moved = inner_->progress();
    while (!under_way_.empty()) {
      const Pending& first = under_way_.front();
      if (!inner_->done(first.inner) || steady_s() < first.over_s) break;
      close(first.own);
      under_way_.pop_front();
      moved = true;
    }
    return moved;
  }

 private:
  struct Pending {
    comm::Ticket own, inner;
    double over_s;
  };
  double of_others(int64_t bytes) const {
    const auto ranks = static_cast<double>(size());
    return static_cast<double>(bytes) * (ranks - 1) / ranks;
  }
  comm::Ticket add(comm::Ticket inner, double bytes, bool over_link = true) {
    const comm::Ticket own = open();
    count_sent(static_cast<int64_t>(bytes));
    under_way_.push_back({own, inner, over_link ? link_.send(bytes) : 0});
    return own;
  }

  std::unique_ptr<comm::Communicator> inner_;
  SlowLink& link_;
  std::deque<Pending> under_way_;
};

class SlowWorld final : public comm::World {
 public:
  SlowWorld(comm::World& inner, SlowLink& link) : inner_(inner), link_(link) {}

  int64_t rank() const override { return inner_.rank(); }
  int64_t size() const override { return inner_.size(); }
  const std::string& host(int64_t rank) const override { return inner_.host(rank); }
  std::unique_ptr<comm::Communicator> group(std::span<const int64_t> ranks) override {
    return std::make_unique<SlowCommunicator>(inner_.group(ranks), link_);
  }
  void barrier() override { inner_.barrier(); }
  std::vector<std::string> all_gather(const std::string& own) override {
    return inner_.all_gather(own);
  }
  void broadcast(std::string& bytes, int64_t root) override { inner_.broadcast(bytes, root); }
  void all_reduce(std::span<double> x, comm::Reduction r) override { inner_.all_reduce(x, r); }
  [[noreturn]] void abort(int exit_code) override {
    inner_.abort(exit_code);
    std::abort();
  }

 private:
  comm::World& inner_;
  SlowLink& link_;
};

}  // namespace tessera
