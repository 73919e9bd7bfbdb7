// Records digests of all values of a step, which are small enough to store and to compare with
// those of the same step on another layout.
//
// The digest of a global value x is 8 sums of ± x[i] over its elements, with signs that are a hash
// of (name, global element). It is linear: the digests of shards of x, or of terms of x, add up to
// that of x. The distance of two digests estimates that of the values: the mean of the squares of
// the 8 differences has the expected value |x − y|² for all x and y.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
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
  double squares = 0;    // sum of squares of the elements on this rank
  int64_t elements = 0;  // number of elements on this rank

  // Adds the elements of a box of a global value. `part` begins with the first of them and may be
  // padded after the last. Only for floating-point types. -inf counts as `minus_infinity`: masked
  // scores are right, and need a digest that is finite.
  void add(const TensorView& part, const Shape& global, std::span<const int64_t> begin,
           std::span<const int64_t> end, uint64_t name,
           double minus_infinity = -std::numeric_limits<double>::infinity());
};

struct ValueRecord {
  std::string key;   // step, op, value and micro-batch: the same on all layouts
  std::string told;  // for messages, with the op of this layout: "layer3.norm1 (all_gather)"
  Sharding place;    // sharding of the value: how the digests of several ranks combine
  ValueDigest digest;
};

struct RankRecords {
  Mesh mesh;
  Coordinates at;
  std::vector<ValueRecord> records;  // in the order of computation
};

// Collects the records of one rank, step by step.
class ValueRecorder {
 public:
  ValueRecorder(const Program& program, const runtime::RankPosition& position);

  // Returns the observer for Trainer::run_step() in step `step`.
  std::function<void(const runtime::OpEvent&)> observer(int64_t step);
  // Records the gradients and the state that this rank owns. Call it after each step.
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
  runtime::RankPosition position_;
  RankRecords all_;
  int64_t step_ = 0;
  // The shape of packed heads in a layout that replicates key/value heads. Other layouts have no
  // values of this shape, so they are not recorded.
  std::optional<Shape> copied_heads_;
  const Call* call_ = nullptr;                 // the current call
  std::map<ValueId, Known> known_;             // values recorded in this call
  std::map<std::string, int64_t> times_made_;  // how often an op of this call made each key
  std::map<ValueId, int32_t> chunks_made_;     // the number of chunks of each value in this call
  struct Made {
    int64_t order = 0;
    std::string by;
  };
  std::map<std::string, Made> made_;  // the last op of this step that wrote each gradient
};

// Convert records to text and back. `source` names the text in the Error that parse_records()
// throws.
std::string to_text(const RankRecords& records);
RankRecords parse_records(const std::string& text, const std::string& source);

// ---- The values of a program whose contents are defined after the op that writes them.

// Returns true for each value that some op reads or that outlives its segment. An additional output
// of an op, such as the gradient of a frozen bias, is neither: its bytes are not cleared before the
// op adds to them, so its contents are undefined.
IdVector<ValueId, bool> live_values(const Program& program);

}  // namespace tessera::train
