// Maps our tensors to Hugging Face's tensors: names, transposes, regrouping. Each family's file has
// its own table.
//
// Our tensors are [out dims…, in dims…], row-major. Each Hugging Face tensor ("theirs") is a
// reshape and a transpose of one of our tensors, or of a part of one: query, key and value, which
// Hugging Face stores separately, are one tensor here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "model/model_config.h"

namespace tessera::model {

struct HfTensor {
  std::string ours, theirs;
  Shape shape;        // our whole tensor's
  Shape their_shape;  // as in the file
  Shape view;         // theirs, reshaped: one extent for each of our dimensions
  // part of our tensor = theirs.reshape(view).transpose(axes), in numpy's terms
  std::vector<int> axes;
  std::vector<int64_t> begin;  // where the part begins in our tensor
  int64_t their_row = 0;       // its first row in theirs, which may have more rows

  Shape part() const;           // its extents
  int64_t their_begin() const;  // the index of the part's first element in theirs
  std::vector<int64_t> end() const;
};

// The list of tensors that a family fills.
class HfTensorList {
 public:
  // The same dimensions on both sides, in the same order.
  void same(std::string ours, std::string theirs, const Shape& shape);
  // Theirs has fewer dimensions, each the product of some of our dimensions in the same order.
  void flat(std::string ours, std::string theirs, const Shape& shape, Shape their_shape);
  // ours = theirs.reshape(view).transpose(axes)
  void moved(std::string ours, std::string theirs, Shape their_shape, Shape view,
             std::vector<int> axes);
  // ours[begin : begin + view] = theirs.reshape(view)
  void part(std::string ours, const Shape& shape, std::vector<int64_t> begin, std::string theirs,
            Shape their_shape, Shape view);
  // ours[begin : begin + view] = theirs[row : …].reshape(view): Hugging Face tensors that
  // hold several parts of our tensors have the parts one after another.
  void rows(std::string ours, const Shape& shape, std::vector<int64_t> begin, std::string theirs,
            Shape their_shape, int64_t row, Shape view);
  // ours[begin : …] = theirs[row : …].reshape(view).transpose(axes)
  void moved_rows(std::string ours, const Shape& shape, std::vector<int64_t> begin,
                  std::string theirs, Shape their_shape, int64_t row, Shape view,
                  std::vector<int> axes);
  // ours.gain and ours.bias, theirs.weight and theirs.bias
  void norm(const std::string& ours, const std::string& theirs, int64_t width);

  std::vector<HfTensor> take() { return std::move(all_); }

 private:
  std::vector<HfTensor> all_;
};

// Returns the entries of each Hugging Face tensor, which follow each other.
std::vector<std::span<const HfTensor>> by_theirs(std::span<const HfTensor> tensors);

// Every tensor of the model. `theirs` is the full name ("transformer.h.0.ln_1.weight"). The parts
// of one of our tensors follow each other and cover it.
std::vector<HfTensor> hf_tensors(const ModelConfig& model);

// Returns the axes of the inverse: theirs.reshape(view) = part.transpose(inverse(axes)).
std::vector<int> inverse(const std::vector<int>& axes);

// "transformer.": files of the bare model have names without it.
std::string_view hf_prefix(Family family);

// Tensors of older files that are not weights: attention masks, rotary frequencies.
bool hf_is_buffer(const ModelConfig& model, std::string_view their_name);
// Those that hold the embedding once more: the head where the two are tied, and T5's stacks'.
bool hf_is_embedding(const ModelConfig& model, std::string_view their_name);

// The MLP's inner width: feed_forward, or 4 × hidden where it is 0.
int64_t inner_width(const ModelConfig& model);
// An expert's inner width: expert_feed_forward, or the MLP's where it is 0.
int64_t expert_width(const ModelConfig& model);
bool has_experts(const ModelConfig& model, int64_t layer);
// The inner width of one layer's MLP or of its experts; it may be one of wide_layers.
int64_t inner_width(const ModelConfig& model, int64_t layer);
// Key/value heads: kv_heads, or as many as heads where it is 0.
int64_t key_value_heads(const ModelConfig& model);

}  // namespace tessera::model
