// Tensors of a file of tests/golden.
#pragma once

#include <cstring>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {

// The file is eight bytes of length, a JSON table of (dtype, shape, place), and the data.
class Golden {
 public:
  explicit Golden(const char* file = "ops.safetensors")
      : bytes_(read_file(Path(TESSERA_GOLDEN) / file)) {
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    table_ = parse_json(std::string_view(bytes_).substr(8, length), file);
    data_ = 8 + length;
  }
  Array operator()(const std::string& name) const {
    const Tree* const entry = table_.find(name);
    CHECK(entry != nullptr, "no golden tensor {}", name);
    std::vector<int64_t> dims;
    for (const Tree& d : *entry->find("shape")->as_list())
      dims.push_back(std::get<int64_t>(d.value));
    const std::string type = *entry->find("dtype")->as_string();
    Array a(Shape(dims), type == "I32" ? DType::kI32 : type == "U8" ? DType::kU8 : DType::kF32);
    const Tree::List& place = *entry->find("data_offsets")->as_list();
    const auto begin = static_cast<size_t>(std::get<int64_t>(place[0].value));
    std::memcpy(a.data(), bytes_.data() + data_ + begin, static_cast<size_t>(a.view().bytes()));
    return a;
  }
  bool has(const std::string& name) const { return table_.find(name) != nullptr; }
  double number(const std::string& name) const {
    return std::stod(*table_.find("__metadata__")->find(name)->as_string());
  }
  double number(const std::string& name, double otherwise) const {
    return table_.find("__metadata__")->find(name) == nullptr ? otherwise : number(name);
  }

 private:
  std::string bytes_;
  Tree table_;
  size_t data_ = 0;
};

}  // namespace tessera::kernels
