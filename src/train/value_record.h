// Every value of a step, small enough to keep and to compare with the same step on another layout.
//
// A digest of a global value x is 8 sums of ± x[i] over its elements, with signs drawn by (name,
// global element). It is linear: ranks that hold parts of x, or terms of it, add their digests to
// that of x. And two values differ by about as much as their digests: the mean of the squares of
// the 8 differences is |x − y|² on average, whatever x and y are.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "ir/program.h"
#include "runtime/executor.h"

namespace tessera::train {

constexpr size_t kDigestSums = 8;

struct ValueDigest {
  std::array<double, kDigestSums> sums{};
  double squares = 0;  // of what this rank holds
  int64_t elements = 0;

  // The elements of a box of a global value; `part` begins with its first and may be padded beyond
  // its last. Floating types only.
  void add(const TensorView& part, const Shape& global, std::span<const int64_t> begin,
           std::span<const int64_t> end, uint64_t name);
};

struct ValueRecord {
  std::string key;   // step, op, value, micro-batch: the same on every layout
  std::string told;  // the same for people, with what this layout does: "layer3.norm1 (all_gather)"
  Sharding place;    // of the value: what its digests of several ranks are to each other
  ValueDigest digest;
};

struct RankRecords {
  Mesh mesh;
  Coordinates at;
  std::vector<ValueRecord> records;  // in the order of their making
};

// Keeps the records of one rank, step by step.
class ValueRecorder {
 public:
  ValueRecorder(const Program& program, const runtime::Position& position);

  // What to run step `step` with.
  std::function<void(const runtime::OpEvent&)> observer(int64_t step);
  // After it: what this rank owns of the gradients and of the state.
  void finish(std::span<const checkpoint::StateTensor> gradients,
              std::span<const checkpoint::StateTensor> state);
  const RankRecords& records() const { return all_; }

 private:
  void observe(const runtime::OpEvent& e);
  void arrivals(const runtime::OpEvent& e);
  void output(const runtime::OpEvent& e, size_t i);
  // Identifies a value: the key of its record, and its name among all layers.
  struct Known {
    std::string key, name;
  };
  void record(const runtime::OpEvent& e, ValueId v, const TensorView& view, Known known,
              const std::string& what);
  TensorView all_of(const runtime::OpEvent& e, ValueId v, const TensorView& view) const;
  void own(std::span<const checkpoint::StateTensor> pieces, const std::string& what);
  Known known_of(const runtime::OpEvent& e, const std::string& what, ValueId v) const;
  Known made_of(const runtime::OpEvent& e, const std::string& what, ValueId v);
  std::string name_of(const runtime::OpEvent& e, ValueId v) const;
  bool sums_adapters(const Op& op) const;

  const Program& program_;
  IdVector<ValueId, bool> live_;
  runtime::Position position_;
  RankRecords all_;
  int64_t step_ = 0;
  // Of packed heads where key/value heads have copies: no other layout has values like these.
  std::optional<Shape> copied_heads_;
  const Call* call_ = nullptr;                 // under way
  std::map<ValueId, Known> known_;             // of this call: what was recorded …
  std::map<std::string, int64_t> times_made_;  // … and how often an op made each key
  std::map<ValueId, int32_t> chunks_made_;     // … and the number of chunks of each value
  struct Made {
    int64_t order = 0;
    std::string by;
  };
  std::map<std::string, Made> made_;  // gradients of this step: by which op last
};

// As text, and back. `source` names the text in the Error that parse_records() throws.
std::string to_text(const RankRecords& records);
RankRecords parse_records(const std::string& text, const std::string& source);

// ---- Which values of a program have a meaning after the op that writes them.

// Returns true for each value that some op reads or that outlives its segment. What an op writes in
// addition to the requested output, such as the gradient of a frozen bias, is neither: nothing
// clears its bytes before an op adds to them, so its contents are undefined.
IdVector<ValueId, bool> live_values(const Program& program);

}  // namespace tessera::train
