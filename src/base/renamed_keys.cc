// The table of renamed keys and values, and the translation of what earlier versions stored.
//
// An entry renames one member of a section, so a path is translated name by name from the left.
#include "base/renamed_keys.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

struct RenamedKey {
  std::string_view path, name;  // the old path, and the present name of its last part
  // Old and present texts of its values. "true" and "false" are the booleans.
  std::array<std::pair<std::string_view, std::string_view>, 2> values = {};
};

constexpr RenamedKey kRenamed[] = {
    {"run.products", "kernel_selection", {{{"measured", "autotune"}, {"proposed", "heuristic"}}}},
    {"model.rotary_share", "rotary_pct"},
    {"model.rotary_base", "rope_theta"},
    {"model.rotary_scale", "rope_scaling"},
    {"model.rotary_scale.low", "low_freq_factor"},
    {"model.rotary_scale.high", "high_freq_factor"},
    {"model.rotary_scale.context", "original_max_position_embeddings"},
    {"data.documents_apart", "intra_document_masking"},
    {"data.long_examples", "long_examples", {{{"refuse", "error"}, {"cut", "truncate"}}}},
    {"batch.ramp", "warmup_sizes"},
    {"batch.ramp_steps", "warmup_steps_per_size"},
    {"schedule.floor", "min_lr_ratio"},
    {"schedule.floor_rule", "min_lr_mode", {{{"blend", "interpolate"}}}},
    {"optimizer.decay", "weight_decay_applies_to"},
    {"optimizer.moments", "moment_dtype"},
    {"optimizer.update_clip", "clip_threshold"},
    {"optimizer.scale_by_weight", "scale_parameter"},
    {"optimizer.least_scale", "min_parameter_scale"},
    {"loss_scale.least", "min"},
    {"compiler.attention", "attention", {{{"materialised", "unfused"}}}},
    {"compiler.scores", "attention_scores_dtype", {{{"half", "compute"}}}},
    {"compiler.selective", "selective_recompute", {{{"attention", "core_attention"}}}},
    {"compiler.again", "full_recompute", {{{"whole", "all"}}}},
    {"compiler.masks", "dropout_masks", {{{"drawn", "regenerate"}, {"kept", "store"}}}},
    {"compiler.sent", "deallocate_pipeline_outputs", {{{"dropped", "true"}, {"kept", "false"}}}},
    {"compiler.gradients", "grad_accum_dtype", {{{"half", "weight"}}}},
    {"compiler.communication", "grad_reduce_dtype", {{{"sums", "accum"}, {"half", "weight"}}}},
    {"compiler.accumulate", "fuse_grad_accumulation", {{{"fused", "true"}, {"apart", "false"}}}},
    {"compiler.products", "gemm_dtype", {{{"stored", "compute"}}}},
};

const RenamedKey* find_old(std::string_view path) {
  const auto* const at = std::find_if(std::begin(kRenamed), std::end(kRenamed),
                                      [&](const RenamedKey& k) { return k.path == path; });
  return at == std::end(kRenamed) ? nullptr : at;
}

// Returns the present path of an entry whose sections have their present names.
std::string present_path(const RenamedKey& key) {
  const size_t dot = key.path.rfind('.');
  return std::string(key.path.substr(0, dot + 1)) + std::string(key.name);
}

std::string_view present_value(const RenamedKey& key, std::string_view value) {
  for (const auto& [old, present] : key.values)
    if (!old.empty() && old == value) return present;
  return {};
}

void translate_value(const RenamedKey& key, Tree& value) {
  const std::string* text = value.as_string();
  const std::string_view present = text != nullptr ? present_value(key, *text) : std::string_view();
  if (present.empty()) return;
  if (present == "true" || present == "false")
    value.value = present == "true";
  else
    value.value = std::string(present);
}

void translate(Tree& tree, const std::string& path) {
  // The elements of optimizer.groups have the keys of the section `optimizer`.
  if (auto* list = std::get_if<Tree::List>(&tree.value); list != nullptr)
    if (path == "optimizer.groups")
      for (Tree& element : *list) translate(element, "optimizer");
  auto* members = std::get_if<Tree::Members>(&tree.value);
  if (members == nullptr) return;
  for (auto& [name, value] : *members) {
    const std::string old = path.empty() ? name : path + '.' + name;
    if (const RenamedKey* key = find_old(old)) {
      name = key->name;
      translate_value(*key, value);
    }
    translate(value, old);
  }
}

}  // namespace

std::string renamed_path(std::string_view path) {
  std::string present;
  bool renamed = false;
  for (size_t from = 0; from <= path.size();) {
    const size_t to = std::min(path.find('.', from), path.size());
    const RenamedKey* key = find_old(path.substr(0, to));
    if (from > 0) present += '.';
    present += key != nullptr ? key->name : path.substr(from, to - from);
    renamed = renamed || (key != nullptr && key->name != path.substr(from, to - from));
    from = to + 1;
  }
  return renamed ? present : std::string();
}

std::string renamed_value(std::string_view path, std::string_view value) {
  for (const RenamedKey& key : kRenamed)
    if (key.path == path || present_path(key) == path)
      if (const std::string_view present = present_value(key, value); !present.empty())
        return std::string(present);
  return {};
}

std::string renamed_advice(std::string_view path) {
  const std::string present = renamed_path(path);
  if (present.empty()) return {};
  std::string values;
  if (const RenamedKey* key = find_old(path))
    for (const auto& [old, value] : key->values)
      if (!old.empty())
        values += fmt::format("{}{} is now {}", values.empty() ? "" : ", ", old, value);
  return values.empty() ? present : fmt::format("{} ({})", present, values);
}

Tree with_present_names(Tree stored, std::string_view section) {
  translate(stored, std::string(section));
  return stored;
}

}  // namespace tessera
