// Compares two checkpoints tensor by tensor, in slabs. Tensors that are divided in the same way and
// have the same checksums are not read, so comparing two copies only reads their indexes.
#include "checkpoint/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/shape.h"
#include "checkpoint/convert.h"
#include "model/weight_names.h"

namespace tessera::checkpoint {
namespace {

constexpr int64_t kSlab = int64_t{1} << 20;  // elements compared at a time

// Returns true if both tensors are divided in the same way and all checksums agree.
bool same_pieces(const StoredTensor& a, const StoredTensor& b) {
  return std::equal(a.pieces.begin(), a.pieces.end(), b.pieces.begin(), b.pieces.end(),
                    [](const StoredPiece& p, const StoredPiece& q) {
                      return p.begin == q.begin && p.end == q.end && p.checksum == q.checksum;
                    });
}

struct Sums {
  double differences = 0, first = 0;  // sums of squares of a - b and of a
};

void add_values(std::span<const double> a, std::span<const double> b, TensorDifference& d,
                Sums& sums) {
  for (size_t i = 0; i < a.size(); ++i) {
    sums.first += a[i] * a[i];
    // Equal bits are equal values, NaN included; -0 and +0 count as different.
    if (std::memcmp(&a[i], &b[i], sizeof(double)) == 0) continue;
    ++d.elements;
    const double gap = std::abs(a[i] - b[i]);
    // A difference with NaN on one side is reported as infinite.
    d.largest =
        std::max(d.largest, std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap);
    sums.differences += gap * gap;
  }
}

TensorDifference compare_values(CheckpointReader& a, CheckpointReader& b, const StoredTensor& t) {
  TensorDifference d{t.name, "", 0, 0, 0};
  Sums sums;
  const DType type = is_float(t.dtype) ? DType::kF64 : t.dtype;
  const int64_t bytes = size_of(type);
  for (int64_t at = 0; at < t.shape.elements(); at += kSlab) {
    const int64_t last = std::min(at + kSlab, t.shape.elements());
    for (const Box& box : boxes_of_range(t.shape, at, last)) {
      const int64_t n = box.elements();
      std::vector<std::byte> x(n * bytes), y(x.size());
      a.read(t.name, box.begin, box.end, {x.data(), type, box.extents()});
      b.read(t.name, box.begin, box.end, {y.data(), type, box.extents()});
      if (is_float(type)) {
        const auto values = [n](const std::vector<std::byte>& bytes_of) {
          return std::span(reinterpret_cast<const double*>(bytes_of.data()),
                           static_cast<size_t>(n));
        };
        add_values(values(x), values(y), d, sums);
        continue;
      }
      for (int64_t i = 0; i < n; ++i)
        d.elements += std::memcmp(&x[i * bytes], &y[i * bytes], bytes) != 0;
    }
  }
  d.relative = sums.differences > 0 ? std::sqrt(sums.differences / sums.first) : 0;
  return d;
}

// Returns the tensors of a checkpoint to compare with those of another one. Weights in 4 bits are
// dequantized for a comparison with plain ones.
std::vector<StoredTensor> comparable(const CheckpointReader& own, const CheckpointReader& other) {
  std::vector<StoredTensor> all = own.tensors();
  if (own.quantized().empty() || !other.quantized().empty()) return all;
  std::erase_if(all, [](const StoredTensor& t) { return model::is_quantized_name(t.name); });
  all.insert(all.end(), own.quantized().begin(), own.quantized().end());
  return all;
}

}  // namespace

std::vector<TensorDifference> compare(CheckpointReader& a, CheckpointReader& b) {
  std::vector<TensorDifference> differences;
  for (const StoredTensor& t : comparable(a, b)) {
    const StoredTensor* other = b.find(t.name);
    if (!other) {
      differences.push_back({t.name, "only in the first", 0, 0, 0});
    } else if (other->shape != t.shape ||
               (other->dtype != t.dtype && !(is_float(other->dtype) && is_float(t.dtype)))) {
      differences.push_back({t.name,
                             fmt::format("{} {} and {} {}", name_of(t.dtype), to_string(t.shape),
                                         name_of(other->dtype), to_string(other->shape)),
                             0, 0, 0});
    } else if (other->dtype != t.dtype || !same_pieces(t, *other)) {
      TensorDifference d = compare_values(a, b, t);
      if (other->dtype != t.dtype)
        d.types = fmt::format("{} and {}", name_of(t.dtype), name_of(other->dtype));
      if (d.elements > 0 || !d.types.empty()) differences.push_back(std::move(d));
    }
  }
  for (const StoredTensor& t : comparable(b, a))
    if (!a.find(t.name)) differences.push_back({t.name, "only in the second", 0, 0, 0});
  return differences;
}

}  // namespace tessera::checkpoint
