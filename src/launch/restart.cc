// Decides whether, when and with how many ranks a failed run starts again.
//
// Delays grow exponentially over failures without progress, because a failure that recurs at once
// is usually persistent. Deterministic failures are not retried: training repeats bit for bit, so
// they would recur.
#include "launch/restart.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace tessera::launch {
namespace {

// The ranks are compared too: the same step may fail once on each of two broken hosts.
bool same_error(const AttemptEnd& a, const AttemptEnd& b) {
  return a.failure.kind == FailureKind::kError && b.failure.kind == FailureKind::kError &&
         a.failure.step == b.failure.step && a.failure.ranks == b.failure.ranks;
}

// Counts the failures at the end of the list in which no attempt got further than the one before.
int losses_in_a_row(const std::vector<AttemptEnd>& ends) {
  int n = 1;
  for (size_t i = ends.size() - 1; i > 0; --i, ++n)
    if (ends[i].failure.step > ends[i - 1].failure.step) break;
  return n;
}

// Returns the hosts of the failed ranks, as far as they are known.
std::set<std::string> lost_hosts(const Failure& failure, const std::vector<std::string>& hosts) {
  std::set<std::string> failed;
  for (const int r : failure.ranks) failed.insert(hosts[r]);
  failed.erase("");
  return failed;
}

}  // namespace

Restart after_failure(const RestartOptions& options, const std::vector<AttemptEnd>& ends) {
  CHECK(!ends.empty(), "no failed attempt");
  if (std::ssize(ends) > options.limit) return {};
  const AttemptEnd& last = ends.back();
  if (last.failure.kind == FailureKind::kDisagree) return {false, 0, "retrying would not help"};
  if (last.failure.kind == FailureKind::kError && last.failure.code == kNumericExitCode)
    return {false, 0,
            "a numeric failure (exit code 3) would recur. Change the learning rate or the data, or "
            "start from an earlier step"};
  if (last.failure.kind == FailureKind::kError && last.failure.step == 0)
    return {false, 0, "an error before the first step would recur"};
  if (ends.size() > 1 && same_error(last, ends[ends.size() - 2]))
    return {false, 0, "the same error occurred twice at the same step"};
  const int n = losses_in_a_row(ends);
  // The delay is 2^(n-1) times the first one.
  return {true, std::min(options.longest_pause_s, options.pause_s * std::ldexp(1.0, n - 1)), ""};
}

std::optional<int64_t> largest_data(int64_t ranks, const JobSize& job) {
  // The global batch must divide into micro-batches on all data-parallel ranks, so the largest
  // degree that fits is searched downward.
  for (int64_t data = ranks / job.model_ranks; data > 0; --data) {
    const bool batch_fits = job.global % (job.micro * data) == 0;
    const bool groups_fit = job.zero_group <= 0 || data % job.zero_group == 0;
    if (batch_fits && groups_fit) return data;
  }
  return {};
}

std::optional<RankHosts> smaller(const RankHosts& world, const Failure& failure,
                                 const std::vector<std::string>& rank_hosts, const JobSize& job) {
  RankHosts next = world;
  const std::set<std::string> failed = lost_hosts(failure, rank_hosts);
  const auto stays = [&](const std::string& host) { return !failed.contains(host); };
  int64_t left = std::count_if(rank_hosts.begin(), rank_hosts.end(), stays);
  // All ranks are on failed hosts, or the hosts are unknown: use fewer ranks on the same ones.
  if (left == 0 || failed.empty()) {
    left = world.ranks - std::max<int64_t>(1, std::ssize(failure.ranks));
  } else if (world.hosts.empty()) {
    // srun chooses the hosts and receives the list of those to exclude.
    next.left_out.insert(next.left_out.end(), failed.begin(), failed.end());
  } else {
    std::set<size_t> gone;
    for (const int r : failure.ranks) gone.insert(host_of(world.hosts, r));
    next.hosts.clear();
    for (size_t i = 0; i < world.hosts.size(); ++i)
      if (!gone.contains(i)) next.hosts.push_back(world.hosts[i]);
    left = std::min<int64_t>(world.ranks, slots(next.hosts));
  }
  const std::optional<int64_t> data = largest_data(left, job);
  if (!data) return {};
  next.data = *data;
  next.ranks = static_cast<int>(*data * job.model_ranks);
  return next;
}

}  // namespace tessera::launch
