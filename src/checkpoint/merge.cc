// Adds LoRA adapters (Hu et al. 2021) to the weights: W + s B A, and with DoRA (Liu et al. 2024)
// m (W + s B A) / |W + s B A|. W is streamed over flat ranges, so only the adapters and one number
// per row, which are small, are held in memory.
#include "checkpoint/merge.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/config.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/tree.h"
#include "checkpoint/stored_model.h"
#include "model/adapter_modules.h"
#include "model/weight_names.h"

namespace tessera::checkpoint {
namespace {

bool is_adapter(const StoredTensor& t) { return model::is_adapter(t.name); }

std::string with(std::string name, std::string_view suffix) {
  name += suffix;
  return name;
}

std::vector<float> whole(CheckpointReader& r, const StoredTensor& t) {
  std::vector<float> values(t.shape.elements());
  r.read(t.name, {values.data(), DType::kF32, t.shape});
  return values;
}

// The adapter of a part of a weight W. W is seen as a matrix [rows, columns]: all dimensions other
// than the input are flattened into rows. Of each `width` rows, the part has `count` from `first`
// on. b is [part rows, rank] and a is [rank, columns]. If W has one matrix per expert, each has
// `rows_per_matrix` rows, and a is [experts, rank, columns].
struct Adapter {
  int64_t rank = 0, columns = 0, width = 1, first = 0, count = 1, rows_per_matrix = 1;
  double scale = 1;
  std::vector<float> a, b;
  std::vector<double> factors;  // with DoRA: m / |W + s B A| of each row of the part

  // Returns the row of the part for a row of W, or -1.
  int64_t row_of_part(int64_t row) const {
    const int64_t at = row % width - first;
    return at >= 0 && at < count ? row / width * count + at : -1;
  }

  // Changes `count` numbers of W from the flat index `from` on.
  void add(int64_t from, int64_t count_of_numbers, float* w) const {
    // A flat range may begin and end inside a row; each iteration handles the part in one row.
    for (int64_t i = 0; i < count_of_numbers;) {
      const int64_t at = row_of_part((from + i) / columns), column = (from + i) % columns;
      const int64_t n = std::min(count_of_numbers - i, columns - column);
      if (at >= 0) add_to_row(at, column, n, w + i);
      i += n;
    }
  }

 private:
  void add_to_row(int64_t row, int64_t column, int64_t n, float* w) const {
    std::vector<double> sum(w, w + n);
    for (int64_t k = 0; k < rank; ++k) {
      const double factor = scale * b[row * rank + k];
      const float* from = a.data() + (row / rows_per_matrix * rank + k) * columns + column;
      for (int64_t j = 0; j < n; ++j) sum[j] += factor * from[j];
    }
    for (int64_t j = 0; j < n; ++j)
      w[j] = static_cast<float>(factors.empty() ? sum[j] : factors[row] * sum[j]);
  }
};

// Sets the factors of DoRA, from the magnitudes, by reading W row by row.
void read_factors(CheckpointReader& r, const StoredTensor& w, const StoredTensor& magnitude,
                  Adapter& x) {
  const std::vector<float> m = whole(r, magnitude);
  std::vector<double> factors(m.size());
  std::vector<float> row(x.columns);
  for (int64_t i = 0; i < w.shape.elements() / x.columns; ++i) {
    const int64_t at = x.row_of_part(i);
    if (at < 0) continue;
    int64_t filled = 0;
    for (const Box& box : boxes_of_range(w.shape, i * x.columns, (i + 1) * x.columns)) {
      r.read(w.name, box.begin, box.end, {row.data() + filled, DType::kF32, box.extents()});
      filled += box.elements();
    }
    x.add(i * x.columns, x.columns, row.data());
    double squares = 0;
    for (const float v : row) squares += static_cast<double>(v) * v;
    factors[at] = squares > 0 ? m[at] / std::sqrt(squares) : 0;
  }
  x.factors = std::move(factors);
}

// Returns the adapter whose weights are named after `name`, of that part of w.
Adapter adapter_of(CheckpointReader& r, const StoredTensor& w, const std::string& name,
                   const WeightPart& part, const model::AdapterModule& of,
                   const AdapterSettings& settings) {
  const int64_t outputs = of.outputs, matrices = std::max<int64_t>(of.experts, 1);
  const StoredTensor* a = r.find(with(name, model::kLoraA));
  const StoredTensor* b = r.find(with(name, model::kLoraB));
  const StoredTensor* m = r.find(with(name, model::kLoraMagnitude));
  Adapter x;
  x.rank = settings.rank;
  x.scale = settings.scale();
  x.columns = w.shape.product(static_cast<int>(outputs), w.shape.rank());
  const int64_t inner = w.shape.product(static_cast<int>(part.dim) + 1, static_cast<int>(outputs));
  x.width = w.shape[static_cast<int>(part.dim)] * inner;
  x.first = part.first * inner;
  x.count = part.count * inner;
  const int64_t rows = w.shape.elements() / x.columns / x.width * x.count;
  x.rows_per_matrix = rows / matrices;
  // Sizes come from a file, so they are divided, not multiplied, which could overflow.
  const auto has = [&](const StoredTensor* t, int64_t number, int64_t of_rank) {
    const int64_t n = t == nullptr ? 0 : t->shape.elements();
    return n % x.rank == 0 && n / x.rank % number == 0 && n / x.rank / number == of_rank;
  };
  const bool fits = x.rows_per_matrix > 0 && has(a, matrices, x.columns) && has(b, 1, rows) &&
                    settings.dora() == (m != nullptr) &&
                    (m == nullptr || m->shape.elements() == rows);
  if (!fits) {
    const auto shape = [](const StoredTensor* t) {
      return t == nullptr ? std::string("missing") : to_string(t->shape);
    };
    throw Error("{}: {} has the shape {}, which its adapters do not fit: A {}, B {}{}",
                r.folder().string(), w.name, to_string(w.shape), shape(a), shape(b),
                settings.dora() ? ", magnitudes " + shape(m) : "");
  }
  x.a = whole(r, *a);
  x.b = whole(r, *b);
  if (m != nullptr) read_factors(r, w, *m, x);
  return x;
}

// The parts of weights that may have adapters, by the name of the weight.
using PartsOfWeights = std::map<std::string, std::vector<model::AdapterModule>>;

PartsOfWeights parts_of_weights(const model::ModelConfig& model) {
  PartsOfWeights parts;
  for (model::AdapterModule& m : model::adapter_modules(model)) {
    std::vector<model::AdapterModule>& of = parts[m.tensor.ours];
    // Several Hugging Face tensors may be rows of one weight.
    if (of.empty() || !m.part.name.empty()) of.push_back(std::move(m));
  }
  return parts;
}

std::vector<Adapter> adapters_of(CheckpointReader& r, const StoredTensor& w,
                                 const PartsOfWeights& parts, const AdapterSettings& settings) {
  std::vector<Adapter> found;
  const auto of = parts.find(w.name);
  if (of == parts.end()) return found;
  const std::string name = model::without_weight(w.name);
  if (r.find(with(name, model::kLoraA)) != nullptr) {
    const WeightPart all = {"", 0, 0, w.shape[0]};
    found.push_back(adapter_of(r, w, name, all, of->second[0], settings));
    return found;
  }
  for (const model::AdapterModule& m : of->second)
    if (r.find(with(m.ours(), model::kLoraA)) != nullptr)
      found.push_back(adapter_of(r, w, m.ours(), m.part, m, settings));
  return found;
}

}  // namespace

double AdapterSettings::scale() const {
  const auto n = static_cast<double>(rank);
  return alpha / (rslora() ? std::sqrt(n) : n);
}

bool has_adapters(const CheckpointReader& checkpoint) {
  return checkpoint.used_adapters() != nullptr ||
         std::any_of(checkpoint.tensors().begin(), checkpoint.tensors().end(), is_adapter);
}

void require_adapters_of_parts(const CheckpointReader& checkpoint,
                               const model::ModelConfig& model) {
  if (!has_adapters(checkpoint)) return;
  for (const auto& [weight, modules] : parts_of_weights(model)) {
    const std::string a = with(model::without_weight(weight), model::kLoraA);
    if (!modules[0].part.name.empty() && checkpoint.find(a) != nullptr)
      throw Error(
          "{}: {} is the adapter of a packed weight as a whole, as earlier versions trained it. "
          "Now "
          "each part, such as {}, has an adapter of its own. Merge the adapters into the weights "
          "with   tessera checkpoint merge {} --out MERGED   and use that.",
          checkpoint.folder().string(), a, modules[0].ours(), checkpoint.folder().string());
  }
}

AdapterSettings adapter_settings(const CheckpointReader& r) {
  const std::string source = r.folder().string();
  const Tree* lora = r.header().config.as_members() ? r.header().config.find("lora") : nullptr;
  if (lora == nullptr)
    throw Error(
        "{}: contains adapters, but its header has no 'lora' configuration. Merge the adapters "
        "first, or use another checkpoint.",
        source);
  AdapterSettings s;
  SourceLocations locations;
  read_fields(fields_of(s), *lora, source, locations);
  if (s.rank < 1 || !(s.alpha > 0) || !std::isfinite(s.alpha))
    throw Error(
        "{}: contains adapters, but its header has lora.rank = {} and lora.alpha = {}, expected "
        "both above 0. Use another checkpoint.",
        source, s.rank, s.alpha);
  if (!(s.dora() || s.kind == "lora") || !(s.rslora() || s.scaling == "rank"))
    throw Error(
        "{}: its header has lora.kind = {} and lora.scaling = {}, expected lora or dora, and rank "
        "or rslora. Use another checkpoint, or a later version of Tessera.",
        source, s.kind, s.scaling);
  return s;
}

// Returns the dtype in which the run of a checkpoint held the weights that it did not train.
static std::string base_dtype_of(const CheckpointHeader& header) {
  const Tree* const precision = header.config.find("precision");
  const std::string* const name = precision != nullptr ? precision->as_string() : nullptr;
  if (name == nullptr || *name == "fp32") return "f32";
  return *name == "fp16" ? "f16" : "bf16";
}

Merged merge_adapters(CheckpointReader reader, const Path& out, const std::string& version,
                      const OnTensor& on_tensor) {
  if (!has_adapters(reader))
    throw Error("{}: contains no adapters, expected tensors named …{}", reader.folder().string(),
                model::kLoraA);
  std::error_code error;
  if (std::filesystem::exists(out, error))
    throw Error("{}: exists already. Choose another path, or remove it first.", out.string());
  const AdapterSettings settings = adapter_settings(reader);
  const PartsOfWeights parts = parts_of_weights(stored_model(reader));
  CheckpointWriter writer(out, {}, Existing::kIsKept);
  Merged made;
  std::vector<StoredTensor> weights = reader.quantized();
  for (const StoredTensor& t : reader.tensors())
    // The optimizer state is that of the adapters and has no meaning for the merged weights.
    if (!is_adapter(t) && t.name.find('|') == std::string::npos &&
        !model::is_quantized_name(t.name))
      weights.push_back(t);
  for (const StoredTensor& t : weights) {
    if (on_tensor) on_tensor(made.tensors, std::ssize(weights));
    const std::vector<Adapter> adapters = adapters_of(reader, t, parts, settings);
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
      for (const Adapter& a : adapters) a.add(first, count, w);
    });
    made.adapters += std::ssize(adapters);
    ++made.tensors;
    made.parameters += t.shape.elements();
  }
  CheckpointHeader header = reader.header();
  made.base_dtype = base_dtype_of(header);
  header.version = version;
  // Rank 0 means no adapters, so a run that starts from this checkpoint does not expect them.
  Tree lora = *header.config.find("lora");
  lora.set("rank", Tree(int64_t{0}));
  if (lora.find("quantize") != nullptr) lora.set("quantize", Tree("none"));
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
                             const std::string& version, const OnTensor& on_tensor) {
  if (checkpoints.size() < 2)
    throw Error("got {} checkpoint to average, expected two or more", checkpoints.size());
  std::error_code error;
  if (std::filesystem::exists(out, error))
    throw Error("{}: exists already. Choose another path, or remove it first.", out.string());
  std::vector<CheckpointReader> readers;
  for (const Path& p : checkpoints) {
    readers.emplace_back(p);
    if (!readers.back().quantized().empty())
      throw Error(
          "{}: has weights in 4 bits (lora.quantize), which have no mean. Merge the adapters of "
          "each checkpoint first (`tessera checkpoint merge`), then average the results.",
          p.string());
  }
  for (size_t i = 1; i < readers.size(); ++i) check_same(readers[0], readers[i]);
  // The header (step, tokens, configuration) is that of the latest checkpoint, whatever the order
  // of the arguments.
  const auto last = std::max_element(readers.begin(), readers.end(), [](auto& a, auto& b) {
    return a.header().step < b.header().step;
  });
  CheckpointWriter writer(out, {}, Existing::kIsKept);
  Averaged made;
  const auto& tensors = readers[0].tensors();
  const int64_t all = std::count_if(tensors.begin(), tensors.end(), is_weight);
  for (const StoredTensor& t : tensors) {
    if (!is_weight(t)) continue;
    if (on_tensor) on_tensor(made.tensors, all);
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
