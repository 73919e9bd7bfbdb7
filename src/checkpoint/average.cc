// Averages the weights of checkpoints (Polyak averaging of the end of a run). Sums are in double,
// because f32 sums of many nearly equal weights would lose low bits. Memory is bounded by one slab
// of one tensor.
#include "checkpoint/average.h"

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "base/shape.h"

namespace tessera {
namespace {

// Names of optimizer state and of master weights contain a bar, as in "w|moment1".
bool is_weight(const StoredTensor& t) { return t.name.find('|') == std::string::npos; }

void check_same(const CheckpointReader& a, const CheckpointReader& b) {
  const std::vector<Change> changes = differences(a.header().model, b.header().model);
  if (!changes.empty())
    throw Error("{} and {} hold other models: {} is {} and {}. Only one model has a mean.",
                a.folder().string(), b.folder().string(), changes[0].path, changes[0].before,
                changes[0].after);
  for (const StoredTensor& t : a.tensors()) {
    if (!is_weight(t)) continue;
    const StoredTensor* other = b.find(t.name);
    if (other == nullptr || other->shape != t.shape)
      throw Error("{}: {} is {}, in {} it is {}", a.folder().string(), t.name, to_string(t.shape),
                  b.folder().string(),
                  other == nullptr ? std::string("missing") : to_string(other->shape));
  }
}

// Computes elements [first, first + count) of the mean of a tensor.
void fill_mean(std::span<CheckpointReader> readers, const StoredTensor& t, int64_t first,
               int64_t count, float* out) {
  // The flat range is read as boxes, since a checkpoint is addressed by boxes.
  std::vector<double> sum(count), term(sum.size());
  for (CheckpointReader& r : readers) {
    int64_t at = 0;
    for (const Box& box : boxes_of_range(t.shape, first, first + count)) {
      // Reads as f64, whatever the stored type: widening is exact.
      r.read(t.name, box.begin, box.end, {term.data() + at, DType::kF64, box.extents()});
      at += box.elements();
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }
  for (size_t i = 0; i < sum.size(); ++i)
    out[i] = static_cast<float>(sum[i] / static_cast<double>(readers.size()));
}

}  // namespace

Averaged average_checkpoints(std::span<const Path> checkpoints, const Path& out,
                             const std::string& version) {
  if (checkpoints.size() < 2)
    throw Error("{} checkpoint to average, wanted two or more", checkpoints.size());
  std::error_code error;
  if (std::filesystem::exists(out, error))
    throw Error("{}: exists already. Choose another place, or remove it first.", out.string());
  std::vector<CheckpointReader> readers;
  for (const Path& p : checkpoints) readers.emplace_back(p);
  for (size_t i = 1; i < readers.size(); ++i) check_same(readers[0], readers[i]);
  // The header (step, tokens, configuration) is that of the latest one, whatever the order of
  // arguments.
  const auto last = std::max_element(readers.begin(), readers.end(), [](auto& a, auto& b) {
    return a.header().step < b.header().step;
  });
  CheckpointWriter writer(out, {}, Existing::kIsKept);
  Averaged made;
  for (const StoredTensor& t : readers[0].tensors()) {
    if (!is_weight(t)) continue;
    StateTensor mean;
    mean.name = t.name;
    mean.shape = t.shape;
    writer.add_streamed(mean, [&](int64_t first, int64_t count, std::byte* bytes) {
      fill_mean(readers, t, first, count, reinterpret_cast<float*>(bytes));
    });
    ++made.tensors;
    made.parameters += t.shape.elements();
  }
  CheckpointHeader header = last->header();
  header.version = version;
  writer.commit(header);
  return made;
}

}  // namespace tessera
