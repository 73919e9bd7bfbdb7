// Adds LoRA adapters (Hu et al. 2021) to the weights: W + alpha / rank * B A, streamed over flat
// ranges of W, so only the adapters, which are small, are held in memory.
#include "checkpoint/merge.h"

#include <algorithm>

#include "base/error.h"
#include "base/shape.h"

namespace tessera {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string without_weight(std::string_view name) {
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  return std::string(name);
}

bool is_adapter(const StoredTensor& t) {
  return t.name.ends_with(kAdapterA) || t.name.ends_with(kAdapterB);
}

double number_of(const Tree& t) {
  if (const auto* n = std::get_if<int64_t>(&t.value)) return static_cast<double>(*n);
  const auto* x = std::get_if<double>(&t.value);
  return x == nullptr ? 0 : *x;
}

// Returns alpha / rank of the run that trained the adapters.
double scale_of(const CheckpointReader& r) {
  const Tree* lora = r.header().config.find("lora");
  const Tree *rank = lora ? lora->find("rank") : nullptr,
             *alpha = lora ? lora->find("alpha") : nullptr;
  if (rank == nullptr || alpha == nullptr || !(number_of(*rank) > 0))
    throw Error("{}: holds adapters, but its header has no lora.rank and lora.alpha",
                r.folder().string());
  return number_of(*alpha) / number_of(*rank);
}

std::vector<float> whole(CheckpointReader& r, const StoredTensor& t) {
  std::vector<float> values(t.shape.elements());
  r.read(t.name, {values.data(), DType::kF32, t.shape});
  return values;
}

// The adapter of a weight, with the weight as a matrix: W is [rows, columns], b [rows, rank] and a
// [rank, columns]. Dimensions of W other than the input are flattened.
struct Adapter {
  int64_t rank = 0, columns = 0;
  std::vector<float> a, b;

  void add(double scale, int64_t first, int64_t count, float* w) const {
    // A flat range begins and ends anywhere in a row; each turn handles the part in one row.
    for (int64_t i = 0; i < count;) {
      const int64_t row = (first + i) / columns, column = (first + i) % columns;
      const int64_t n = std::min(count - i, columns - column);
      for (int64_t k = 0; k < rank; ++k) {
        const double factor = scale * static_cast<double>(b[row * rank + k]);
        const float* from = a.data() + k * columns + column;
        for (int64_t j = 0; j < n; ++j)
          w[i + j] = static_cast<float>(static_cast<double>(w[i + j]) +
                                        factor * static_cast<double>(from[j]));
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
  // The sizes come from a file; their product must not overflow.
  int64_t elements = 0;
  const bool fits = b != nullptr && x.rank > 0 && b->shape.rank() > 0 && b->shape[-1] == x.rank &&
                    !__builtin_mul_overflow(b->shape.elements() / x.rank, x.columns, &elements) &&
                    w.shape.elements() == elements;
  if (!fits)
    throw Error("{}: {} is {}, its adapters {} and {}", r.folder().string(), w.name,
                to_string(w.shape), to_string(a.shape),
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
    throw Error("{}: holds no adapters (tensors named …{})", checkpoint.string(), kAdapterA);
  std::error_code error;
  if (std::filesystem::exists(out, error))
    throw Error("{}: exists already. Choose another place, or remove it first.", out.string());
  const double scale = scale_of(reader);
  CheckpointWriter writer(out, {}, Existing::kIsKept);
  Merged made;
  for (const StoredTensor& t : reader.tensors()) {
    // Optimizer state belongs to the adapters' run and has no meaning for the merged weights.
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

}  // namespace tessera
