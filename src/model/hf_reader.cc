// Typed access to the keys of a config.json, with ranges and defaults. A message names the file,
// line and key. An explicit null counts as absent, as in transformers.
#include "model/hf_reader.h"

#include "base/error.h"

namespace tessera::model {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 31;  // above any model; sizes multiplied stay in range

}  // namespace

const Tree* HfReader::find(std::string_view key) const {
  const Tree* t = config_.find(key);
  return t && !t->is_null() ? t : nullptr;
}

bool HfReader::is_null(std::string_view key) const {
  const Tree* t = config_.find(key);
  return t && t->is_null();
}

bool HfReader::empty() const { return config_.as_members()->empty(); }

int64_t HfReader::size(std::string_view key, int64_t otherwise) const {
  const auto n = get<int64_t>(key, otherwise);
  if (n <= 0 || n > kMaxSize)
    refuse(key, std::to_string(n), fmt::format("expected a size from 1 to {}", kMaxSize));
  return n;
}

int64_t HfReader::count(std::string_view key, int64_t otherwise) const {
  const auto n = get<int64_t>(key, otherwise);
  if (n < 0 || n > kMaxSize)
    refuse(key, std::to_string(n), fmt::format("expected an integer from 0 to {}", kMaxSize));
  return n;
}

double HfReader::number(std::string_view key, double otherwise, double low, double high) const {
  const auto x = get<double>(key, otherwise);
  if (!(x >= low && x <= high))
    refuse(key, fmt::format("{}", x), fmt::format("expected a number from {} to {}", low, high));
  return x;
}

void HfReader::must_be(std::string_view key, bool wanted, std::string_view what) const {
  if (get<bool>(key, wanted) == wanted) return;
  refuse(key, wanted ? "false" : "true", fmt::format("Tessera does not compute {}", what));
}

void HfReader::refuse(std::string_view key, std::string_view found, std::string_view why) const {
  throw Error("{}: {} is {}: {}", place(key).at, key, found, why);
}

HfReader HfReader::object(std::string_view key) const {
  const Tree* t = find(key);
  if (!t || !t->as_members()) refuse(key, "not an object", "expected an object or null");
  return {*t, source_};
}

SourceLocation HfReader::place(std::string_view key) const {
  const Tree* t = config_.find(key);
  const bool known = t && t->line > 0;
  return {known ? fmt::format("{}:{}:{}", source_, t->line, t->column) : source_, std::string(key)};
}

GeluForm gelu_of(const HfReader& in, std::string_view key, const char* otherwise) {
  const auto name = in.get<std::string>(key, otherwise);
  if (name == "gelu") return GeluForm::kErf;
  for (const char* tanh : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    if (name == tanh) return GeluForm::kTanh;
  in.refuse(key, name, "Tessera computes gelu, gelu_new, gelu_fast and gelu_pytorch_tanh");
}

void check_heads(const HfReader& in, std::string_view key, const ModelConfig& m) {
  if (m.hidden % m.heads != 0)
    in.refuse(key, std::to_string(m.heads),
              fmt::format("it does not divide the width {}", m.hidden));
}

void check_head_dim(const HfReader& in, const ModelConfig& m) {
  if (const int64_t d = in.size("head_dim", m.head_size()); d != m.head_size())
    in.refuse("head_dim", std::to_string(d),
              fmt::format("heads of this family have width / heads = {}", m.head_size()));
}

Tree hf_config_start(const char* architecture, const char* model_type) {
  Tree list = Tree::list(), out = Tree::object();
  list.push(Tree(std::string(architecture)));
  out.set("architectures", std::move(list));
  out.set("model_type", Tree(std::string(model_type)));
  return out;
}

}  // namespace tessera::model
