// The base class of checks that run a program symbolically: two consecutive copies of its schedule,
// and the findings.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/check/check.h"

namespace tessera::compile {

class TwoStepRun {
 public:
  TwoStepRun(const Program& p, int rank) : p_(p), rank_(rank) {}

  int64_t length() const { return std::ssize(p_.schedule); }
  // Returns the step (0 or 1) of a position.
  int64_t step_of(int64_t x) const { return x / length(); }
  const Call& call(int64_t x) const { return p_.call(CallId(x % length())); }
  std::string name(int64_t x) const { return "call " + call_name(p_, CallId(x % length())); }
  std::string buffer(BufferId f) const { return buffer_name(p_, f); }

  // Adds a finding about position x (or kNone). A sentence is reported once, not again for the
  // second step.
  void say(int64_t x, const std::string& text) {
    if (!said_.insert(text).second) return;
    findings_.push_back({"value", text, rank_, x == kNone ? kNone : CallId(x % length())});
  }
  std::vector<Finding> findings() { return std::move(findings_); }

 private:
  const Program& p_;
  int rank_;
  std::set<std::string> said_;
  std::vector<Finding> findings_;
};

}  // namespace tessera::compile
