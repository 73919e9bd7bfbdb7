// Computes boxes of weights from their stored values, row by row: the inputs of an output are
// consecutive blocks. The stored values of one part are held at a time, about half a byte per
// weight.
#include "checkpoint/dequantized.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nf4.h"
#include "checkpoint/stored_model.h"
#include "model/adapter_modules.h"
#include "model/weight_names.h"

namespace tessera::checkpoint {
namespace {

std::string stored_name(const std::string& name, std::string_view suffix) {
  return name + std::string(suffix);
}

bool has_any(const CheckpointReader& checkpoint, const std::string& name) {
  constexpr std::string_view kSuffixes[] = {model::kNf4Codes, model::kNf4Scales, model::kNf4Levels};
  return std::any_of(std::begin(kSuffixes), std::end(kSuffixes), [&](std::string_view suffix) {
    return checkpoint.find(stored_name(name, suffix)) != nullptr;
  });
}

// Throws DamagedCheckpoint unless the tensor is there, of that type and shape.
void require_tensor(const CheckpointReader& checkpoint, const std::string& name, DType type,
                    const Shape& shape) {
  const StoredTensor* const t = checkpoint.find(name);
  if (t == nullptr)
    throw DamagedCheckpoint(
        "{}: has no tensor '{}', but others of this weight. Use another checkpoint.",
        checkpoint.folder().string(), name);
  if (t->dtype != type || t->shape != shape)
    throw DamagedCheckpoint("{}: '{}' is {} {}, expected {} {}. Use another checkpoint.",
                            checkpoint.folder().string(), name, name_of(t->dtype),
                            to_string(t->shape), name_of(type), to_string(shape));
}

// Requires the stored values of a part of a weight, whose names begin with `name`.
void require_stored(const CheckpointReader& checkpoint, const std::string& name,
                    const model::AdapterModule& m) {
  const Shape& all = m.tensor.shape;
  std::vector<int64_t> dims(all.dims().begin(), all.dims().begin() + m.outputs);
  dims[m.part.dim] = m.part.count;
  dims.push_back(all.product(static_cast<int>(m.outputs), all.rank()) / kNf4Block);
  const Shape scales(dims);
  dims.push_back(kNf4Bytes);
  require_tensor(checkpoint, stored_name(name, model::kNf4Codes), DType::kU8, Shape(dims));
  require_tensor(checkpoint, stored_name(name, model::kNf4Scales), DType::kU8, scales);
  require_tensor(checkpoint, stored_name(name, model::kNf4Levels), DType::kF32,
                 {nf4_levels(scales.elements())});
}

}  // namespace

DequantizedWeights::DequantizedWeights(const CheckpointReader& checkpoint) {
  const auto& stored = checkpoint.tensors();
  if (std::none_of(stored.begin(), stored.end(),
                   [](const StoredTensor& t) { return model::is_quantized_name(t.name); }))
    return;
  std::map<std::string, Shape> shapes;
  std::set<std::string> expected;  // the names of all stored values
  const std::vector<model::AdapterModule> modules =
      model::adapter_modules(model_in_header(checkpoint));
  for (const model::AdapterModule& m : modules)
    if (has_any(checkpoint, m.ours())) shapes[m.tensor.ours] = m.tensor.shape;
  for (const model::AdapterModule& m : modules) {
    if (!shapes.contains(m.tensor.ours)) continue;
    const std::string name = m.ours();
    // Several tensors of a published model may be rows of one part.
    if (!expected.insert(stored_name(name, model::kNf4Codes)).second) continue;
    expected.insert(stored_name(name, model::kNf4Scales));
    expected.insert(stored_name(name, model::kNf4Levels));
    require_stored(checkpoint, name, m);
    parts_[m.tensor.ours].push_back({name, m.part, static_cast<int>(m.outputs)});
  }
  for (const StoredTensor& t : stored)
    if (model::is_quantized_name(t.name) && !expected.contains(t.name))
      throw DamagedCheckpoint(
          "{}: '{}' belongs to no weight of the model in its header. Use another checkpoint.",
          checkpoint.folder().string(), t.name);
  for (const auto& [name, shape] : shapes) tensors_.push_back({name, DType::kF32, shape, {}});
}

const StoredTensor* DequantizedWeights::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const auto& t, std::string_view n) { return t.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

void DequantizedWeights::load(CheckpointReader& checkpoint, const std::string& name) {
  if (loaded_ == name) return;
  loaded_.clear();
  const auto read = [&](std::string_view suffix, auto& values, DType type) {
    const std::string tensor = stored_name(name, suffix);
    const Shape& shape = checkpoint.find(tensor)->shape;
    values.resize(shape.elements());
    checkpoint.read(tensor, {values.data(), type, shape});
  };
  read(model::kNf4Codes, codes_, DType::kU8);
  read(model::kNf4Scales, scales_, DType::kU8);
  read(model::kNf4Levels, levels_, DType::kF32);
  loaded_ = name;
}

void DequantizedWeights::read(CheckpointReader& checkpoint, const StoredTensor& tensor,
                              const Box& box, float* out) {
  for (const Part& p : parts_.at(tensor.name)) {
    Box of_part = whole_box(tensor.shape);
    of_part.begin[p.part.dim] = p.part.first;
    of_part.end[p.part.dim] = p.part.first + p.part.count;
    const Box common = intersection(of_part, box);
    if (common.elements() == 0) continue;
    load(checkpoint, p.name);
    const Shape part = of_part.extents(), extents = common.extents();
    const int64_t inputs = part.product(p.outputs, part.rank());
    std::vector<float> row(inputs);
    // The outputs of the box that are in the part, as a mixed-radix number.
    const Shape rows(
        std::vector<int64_t>(extents.dims().begin(), extents.dims().begin() + p.outputs));
    for (int64_t i = 0; i < rows.elements(); ++i) {
      Box whole_row = of_part, read_box = common;
      int64_t rest = i, first = 0, scale = inputs;
      for (int d = p.outputs - 1; d >= 0; --d) {
        const int64_t at = common.begin[d] + rest % rows[d];
        rest /= rows[d];
        first += (at - of_part.begin[d]) * scale;
        scale *= part[d];
        whole_row.begin[d] = read_box.begin[d] = at;
        whole_row.end[d] = read_box.end[d] = at + 1;
      }
      dequantize_nf4(codes_, scales_, levels_, first, row);
      copy_box(read_box, whole_row, reinterpret_cast<const std::byte*>(row.data()), box,
               reinterpret_cast<std::byte*>(out), sizeof(float));
    }
  }
}

}  // namespace tessera::checkpoint
