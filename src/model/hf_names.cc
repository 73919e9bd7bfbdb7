// Describes each Hugging Face tensor as a reshape, a permutation of axes and an offset into one of
// our weights, so that one routine can import and export all families:
//
//   their [3F, F]  --view-->  [3, H, D, F]  --axes (1, 0, 2, 3)-->  [H, 3, D, F]  --begin-->  ours
//
// A Hugging Face tensor may be part of our tensor (q, k and v of a packed weight) and the reverse
// (gate and up in one tensor, experts of one tensor each). Both are the same description with an
// offset on one side: `begin` in our tensor, `their_row` in theirs. Tensors of the same name are
// adjacent in the list, so an import reads each of them once (by_theirs).
#include "model/hf_names.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "model/family.h"

namespace tessera::model {
namespace {

std::vector<int> same_order(int rank) {
  std::vector<int> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Shape transposed_shape(const Shape& view, const std::vector<int>& axes) {
  std::vector<int64_t> shape;
  for (const int a : axes) shape.push_back(view[a]);
  return Shape(std::move(shape));
}

std::vector<int64_t> origin(const Shape& shape) { return std::vector<int64_t>(shape.rank(), 0); }

}  // namespace

Shape HfTensor::part() const { return transposed_shape(view, axes); }

std::vector<int64_t> HfTensor::end() const {
  std::vector<int64_t> at = part().dims();
  for (size_t d = 0; d < at.size(); ++d) at[d] += begin[d];
  return at;
}

int64_t HfTensor::their_begin() const {
  return their_row * their_shape.product(1, their_shape.rank());
}

std::vector<std::span<const HfTensor>> by_theirs(std::span<const HfTensor> tensors) {
  std::vector<std::span<const HfTensor>> groups;
  for (size_t i = 0, next = 0; i < tensors.size(); i = next) {
    while (next < tensors.size() && tensors[next].theirs == tensors[i].theirs) ++next;
    groups.push_back(tensors.subspan(i, next - i));
  }
  return groups;
}

void HfTensorList::same(std::string ours, std::string theirs, const Shape& shape) {
  flat(std::move(ours), std::move(theirs), shape, shape);
}

void HfTensorList::flat(std::string ours, std::string theirs, const Shape& shape,
                        Shape their_shape) {
  part(std::move(ours), shape, origin(shape), std::move(theirs), std::move(their_shape), shape);
}

void HfTensorList::moved(std::string ours, std::string theirs, Shape their_shape, Shape view,
                         std::vector<int> axes) {
  Shape shape = transposed_shape(view, axes);
  std::vector<int64_t> begin = origin(shape);
  all_.push_back({std::move(ours), std::move(theirs), std::move(shape), std::move(their_shape),
                  std::move(view), std::move(axes), std::move(begin)});
}

void HfTensorList::part(std::string ours, const Shape& shape, std::vector<int64_t> begin,
                        std::string theirs, Shape their_shape, Shape view) {
  all_.push_back({std::move(ours), std::move(theirs), shape, std::move(their_shape),
                  std::move(view), same_order(shape.rank()), std::move(begin)});
}

void HfTensorList::rows(std::string ours, const Shape& shape, std::vector<int64_t> begin,
                        std::string theirs, Shape their_shape, int64_t row, Shape view) {
  part(std::move(ours), shape, std::move(begin), std::move(theirs), std::move(their_shape),
       std::move(view));
  all_.back().their_row = row;
}

void HfTensorList::moved_rows(std::string ours, const Shape& shape, std::vector<int64_t> begin,
                              std::string theirs, Shape their_shape, int64_t row, Shape view,
                              std::vector<int> axes) {
  rows(std::move(ours), shape, std::move(begin), std::move(theirs), std::move(their_shape), row,
       std::move(view));
  all_.back().axes = std::move(axes);
}

void HfTensorList::norm(const std::string& ours, const std::string& theirs, int64_t width) {
  same(ours + ".gain", theirs + ".weight", {width});
  same(ours + ".bias", theirs + ".bias", {width});
}

int64_t inner_width(const ModelConfig& model) {
  return model.feed_forward != 0 ? model.feed_forward : 4 * model.hidden;
}

int64_t inner_width(const ModelConfig& model, int64_t layer) {
  const std::vector<int64_t>& wide = model.wide_layers;
  if (std::binary_search(wide.begin(), wide.end(), layer)) return model.wide_feed_forward;
  return has_experts(model, layer) ? expert_width(model) : inner_width(model);
}

bool has_experts(const ModelConfig& model, int64_t layer) {
  const std::vector<int64_t>& dense = model.dense_layers;
  return model.experts > 0 && !std::binary_search(dense.begin(), dense.end(), layer);
}

int64_t expert_width(const ModelConfig& model) {
  return model.expert_feed_forward != 0 ? model.expert_feed_forward : inner_width(model);
}

int64_t key_value_heads(const ModelConfig& model) {
  return model.kv_heads != 0 ? model.kv_heads : model.heads;
}

std::string_view hf_prefix(Family family) { return rule_of(family).hf_prefix; }

std::vector<HfTensor> hf_tensors(const ModelConfig& model) {
  CHECK(model.heads > 0 &&
            (model.latent.exists() || model.head_width > 0 || model.hidden % model.heads == 0),
        "hidden {} heads {}", model.hidden, model.heads);
  const ModelFamily& family = rule_of(model.family);
  HfTensorList list;
  family.hf_tensors(model, list);
  if (!model.tied_embeddings)
    list.same("head.weight", std::string(family.hf_head),
              {model.padded_vocabulary(), model.hidden});
  return list.take();
}

// The permutation of an export is the inverse of the one of the import.
std::vector<int> inverse(const std::vector<int>& axes) {
  std::vector<int> back(axes.size());
  for (size_t k = 0; k < axes.size(); ++k) back[axes[k]] = static_cast<int>(k);
  return back;
}

bool hf_is_buffer(const ModelConfig& model, std::string_view name) {
  return rule_of(model.family).hf_is_buffer(name);
}

bool hf_is_embedding(const ModelConfig& model, std::string_view name) {
  const ModelFamily& family = rule_of(model.family);
  return (model.tied_embeddings && name == family.hf_head) ||
         (!family.hf_copies.empty() && name.ends_with(family.hf_copies));
}

}  // namespace tessera::model
