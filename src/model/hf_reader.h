// Reads keys of a config.json, with defaults; errors use the file's own key names. Each family
// reads its own keys.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/config.h"
#include "base/tree.h"
#include "model/model_config.h"

namespace tessera::model {

class HfReader {
 public:
  HfReader(const Tree& config, std::string source) : config_(config), source_(std::move(source)) {}

  // Returns nullptr for a key that is absent or null; the default then applies.
  const Tree* find(std::string_view key) const;
  bool is_null(std::string_view key) const;  // given, and null
  bool empty() const;                        // an object without keys
  template <class T>
  T get(std::string_view key, T otherwise) const {
    if (const Tree* t = find(key)) read_value(*t, otherwise, place(key));
    return otherwise;
  }
  int64_t size(std::string_view key, int64_t otherwise) const;
  int64_t count(std::string_view key, int64_t otherwise) const;  // 0 or more
  double number(std::string_view key, double otherwise, double low, double high) const;
  // The model must have this switch as we compute it.
  void must_be(std::string_view key, bool wanted, std::string_view what) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view found,
                           std::string_view why) const;
  // The object under a key that find() has found. Throws Error where it is something else.
  HfReader object(std::string_view key) const;

 private:
  SourceLocation place(std::string_view key) const;

  const Tree& config_;
  std::string source_;
};

// gelu is erf; gelu_new, gelu_fast and gelu_pytorch_tanh are tanh. Throws Error for other values.
GeluForm gelu_of(const HfReader& in, std::string_view key, const char* otherwise);

// Throws Error if the number of heads does not divide the width.
void check_heads(const HfReader& in, std::string_view key, const ModelConfig& m);

// Throws Error if head_dim is not width / heads.
void check_head_dim(const HfReader& in, const ModelConfig& m);

// {"architectures": [name], "model_type": type}: how a config.json begins.
Tree hf_config_start(const char* architecture, const char* model_type);

}  // namespace tessera::model
