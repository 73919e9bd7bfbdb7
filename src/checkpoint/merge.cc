// Adds LoRA adapters (Hu et al. 2021) to the weights: W + alpha / rank * B A, streamed over flat
// ranges of W, so only the adapters, which are small, are held in memory.
#include "checkpoint/merge.h"

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/tree.h"

namespace tessera::checkpoint {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string without_weight(std::string_view name) {
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  return std::string(name);
}

bool is_adapter(const StoredTensor& t) {
  return t.name.ends_with(kAdapterA) || t.name.ends_with(kAdapterB);
}

double number_of(const Tree& t) { return number_in(t).value_or(0); }

// Returns alpha / rank of the run that trained the adapters.
double scale_of(const CheckpointReader& r) {
  const Tree* lora = r.header().config.find("lora");
  const Tree *rank = lora ? lora->find("rank") : nullptr,
             *alpha = lora ? lora->find("alpha") : nullptr;
  if (rank == nullptr || alpha == nullptr || !(number_of(*rank) > 0))
    throw Error("{}: contains adapters, but its header has no valid lora.rank and lora.alpha",
                r.folder().string());
  return number_of(*alpha) / number_of(*rank);
}

std::vector<float> whole(CheckpointReader& r, const StoredTensor& t) {
  std::vector<float> values(t.shape.elements());
  r.read(t.name, {values.data(), DType::kF32, t.shape});
  return values;
}

// The adapter of a weight W. W is seen as a matrix [rows, columns], b is [rows, rank] and a is
// [rank, columns]. All dimensions of W other than the input are flattened into rows.
struct Adapter {
  int64_t rank = 0, columns = 0;
  std::vector<float> a, b;

  void add(double scale, int64_t first, int64_t count, float* w) const {
    // A flat range may begin and end inside a row; each iteration handles the part in one row.
    for (int64_t i = 0; i < count;) {
      const int64_t row = (first + i) / columns, column = (first + i) % columns;
      const int64_t n = std::min(count - i, columns - column);
      for (int64_t k = 0; k < rank; ++k) {
        const double factor = scale * b[row * rank + k];
        const float* from = a.data() + k * columns + column;
        for (int64_t j = 0; j < n; ++j) w[i + j] = static_cast<float>(w[i + j] + factor * from[j]);
      }
      i += n;
    }
  }
};

Adapter adapter_of(CheckpointReader& r, const StoredTensor& w, const StoredTensor& a) {
  const StoredTensor* b = r.find(without_weight(w.name) + kAdapterB);
  Adapter x;
  x.rank = a.shape.rank() > 0 ? a.shape[0] : 0;
  x.columns = a.shape.elements() / std::max<int64_t>(x.rank, 1);
  // The sizes come from a file, so their multiplication must not overflow.
  int64_t elements = 0;
  const bool fits = b != nullptr && x.rank > 0 && b->shape.rank() > 0 && b->shape[-1] == x.rank &&
                    !__builtin_mul_overflow(b->shape.elements() / x.rank, x.columns, &elements) &&
                    w.shape.elements() == elements;
  if (!fits)
    throw Error("{}: {} has the shape {}, which its adapters do not fit: A {}, B {}",
                r.folder().string(), w.name, to_string(w.shape), to_string(a.shape),
                b == nullptr ? std::string("missing") : to_string(b->shape));
  x.a = whole(r, a);
  x.b = whole(r, *b);
  return x;
}

}  // namespace

bool has_adapters(const CheckpointReader& checkpoint) {
  return std::any_of(checkpoint.tensors().begin(), checkpoint.tensors().end(), is_adapter);
}

Merged merge_adapters(const Path& checkpoint, const Path& out, const std::string& version) {
  CheckpointReader reader(checkpoint);
  if (!has_adapters(reader))
    throw Error("{}: contains no adapters, expected tensors named …{}", checkpoint.string(),
                kAdapterA);
  std::error_code error;
  if (std::filesystem::exists(out, error))
    throw Error("{}: exists already. Choose another path, or remove it first.", out.string());
  const double scale = scale_of(reader);
  CheckpointWriter writer(out, {}, Existing::kIsKept);
  Merged made;
  for (const StoredTensor& t : reader.tensors()) {
    // The optimizer state is that of the adapters and has no meaning for the merged weights.
    if (is_adapter(t) || t.name.find('|') != std::string::npos) continue;
    const StoredTensor* a = reader.find(without_weight(t.name) + kAdapterA);
    Adapter adapter;
    if (a != nullptr) adapter = adapter_of(reader, t, *a);
    StateTensor merged;
    merged.name = t.name;
    merged.shape = t.shape;
    writer.add_streamed(merged, [&](int64_t first, int64_t count, std::byte* bytes) {
      auto* w = reinterpret_cast<float*>(bytes);
      int64_t at = 0;
      for (const Box& box : boxes_of_range(t.shape, first, first + count)) {
        reader.read(t.name, box.begin, box.end, {w + at, DType::kF32, box.extents()});
        at += box.elements();
      }
      if (a != nullptr) adapter.add(scale, first, count, w);
    });
    made.adapters += a != nullptr;
    ++made.tensors;
    made.parameters += t.shape.elements();
  }
  CheckpointHeader header = reader.header();
  header.version = version;
  // Rank 0 means no adapters, so a run that starts from this checkpoint does not expect them.
  Tree lora = *header.config.find("lora");
  lora.set("rank", Tree(int64_t{0}));
  header.config.set("lora", std::move(lora));
  writer.commit(header);
  return made;
}

// ---- Averages the weights of checkpoints (Polyak averaging at the end of a run). Sums are in f64,
// because f32 sums of many nearly equal weights would lose low bits. Memory is bounded by one slab
// of one tensor.

namespace {

// Names of optimizer state and of master weights contain a bar, as in "w|moment1".
bool is_weight(const StoredTensor& t) { return t.name.find('|') == std::string::npos; }

void check_same(const CheckpointReader& a, const CheckpointReader& b) {
  const std::vector<Change> changes = differences(a.header().model, b.header().model);
  if (!changes.empty())
    throw Error("{} and {} contain different models: {} is {} and {}. Expected one model.",
                a.folder().string(), b.folder().string(), changes[0].path, changes[0].before,
                changes[0].after);
  for (const StoredTensor& t : a.tensors()) {
    if (!is_weight(t)) continue;
    const StoredTensor* other = b.find(t.name);
    if (other == nullptr || other->shape != t.shape)
      throw Error("{}: {} is {}, but in {} it is {}", a.folder().string(), t.name,
                  to_string(t.shape), b.folder().string(),
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
    throw Error("got {} checkpoint to average, expected two or more", checkpoints.size());
  std::error_code error;
  if (std::filesystem::exists(out, error))
    throw Error("{}: exists already. Choose another path, or remove it first.", out.string());
  std::vector<CheckpointReader> readers;
  for (const Path& p : checkpoints) readers.emplace_back(p);
  for (size_t i = 1; i < readers.size(); ++i) check_same(readers[0], readers[i]);
  // The header (step, tokens, configuration) is that of the latest checkpoint, whatever the order
  // of the arguments.
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

}  // namespace tessera::checkpoint
