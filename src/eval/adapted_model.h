// Evaluates a base model with several adapters, one after another, without loading the base again
// where the loaded program fits the next adapters.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/stored_adapters.h"

namespace tessera::eval {

// Adapters to use over a checkpoint (CheckpointReader::use_adapters); nullptr: none. A checkpoint
// with adapters of its own has the list {nullptr}.
using AdapterList = std::vector<std::shared_ptr<const checkpoint::StoredAdapters>>;

// The model of a checkpoint with one of several adapters at a time. `Model` is a class that has
// replace_adapters(), such as ScoreModel.
template <class Model>
class AdaptedModel {
 public:
  // Returns the model with these adapters, which the checkpoint uses from now on. `make` loads it,
  // and returns a unique_ptr of it. Two models are never in memory at once.
  template <class Make>
  Model& with(checkpoint::CheckpointReader& checkpoint, const AdapterList::value_type& adapters,
              Make&& make) {
    checkpoint.use_adapters(adapters);
    if (model_ == nullptr || !model_->replace_adapters(checkpoint)) {
      model_.reset();
      model_ = std::forward<Make>(make)();
    }
    return *model_;
  }

 private:
  std::unique_ptr<Model> model_;
};

}  // namespace tessera::eval
