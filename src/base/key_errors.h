// The errors of a configuration as values, so that all errors are collected and reported together.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera {

struct KeyError {
  std::string path;     // the key: "batch.micro"
  std::string message;  // the text after the key: "= 3 does not divide batch.global = 8"
};

class KeyErrors {
 public:
  template <class... A>
  void add(std::string path, fmt::format_string<A...> format, A&&... a) {
    list_.push_back({std::move(path), fmt::format(format, std::forward<A>(a)...)});
  }
  // Runs a check whose error begins with the key, such as check_model().
  void add_error_of(const auto& check) {
    try {
      check();
    } catch (const Error& e) {
      const std::string text = e.what();
      const size_t end = text.find(' ');
      list_.push_back({text.substr(0, end), text.substr(std::min(end + 1, text.size()))});
    }
  }
  bool empty() const { return list_.empty(); }
  const std::vector<KeyError>& list() const { return list_; }

 private:
  std::vector<KeyError> list_;
};

}  // namespace tessera
