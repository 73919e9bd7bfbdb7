// What the tests of datasets share: a folder that goes away, small datasets, messages of errors.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/indexed_dataset_writer.h"
#include "data/tokenizer.h"

namespace tessera::data {

class DatasetFixture : public testing::Test {
 protected:
  DatasetFixture() {
    std::string name = (std::filesystem::temp_directory_path() / "dataset_test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no folder for the test";
    folder_ = name;
  }
  ~DatasetFixture() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, bytes);
    return path(name);
  }
  // A dataset of these documents under that name; returns its prefix.
  std::string dataset(const std::string& name, const std::vector<std::vector<int32_t>>& documents,
                      DType dtype = DType::kU16) const {
    IndexedDatasetWriter writer(path(name), dtype);
    for (const auto& d : documents) writer.add_document(d);
    writer.commit("{}");
    std::filesystem::remove(path(name) + ".json");
    return path(name);
  }
  // All files of the folder with their bytes, to show that nothing changed.
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path());
    }
    return files;
  }

  std::filesystem::path folder_;
};

// The message of the Error that `f` throws; "" if it throws none.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// One token a byte, 256 at the end of a document. Byte 0xFF counts as invalid.
class ByteTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache&,
              EncodeReport* report) const override {
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      ids.push_back(byte);
      if (byte == 0xFF && report != nullptr) {
        if (report->invalid_bytes++ == 0) report->first_invalid = static_cast<int64_t>(i);
      }
    }
  }
  std::string_view token_bytes(int32_t id) const override {
    static const std::string bytes = [] {
      std::string all;
      for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
      return all;
    }();
    return id == 256 ? std::string_view("<|endoftext|>")
                     : std::string_view(bytes).substr(static_cast<size_t>(id), 1);
  }
  size_t last_cut(std::string_view text) const override {  // between any two bytes but 'q's
    size_t cut = text.empty() ? 0 : text.size() - 1;
    while (cut > 0 && text[cut - 1] == 'q') --cut;
    return cut;
  }
  int32_t vocabulary_size() const override { return 257; }
  std::optional<int32_t> end_of_text() const override { return 256; }
  std::optional<int32_t> source_end() const override { return 256; }
  uint64_t fingerprint() const override { return 42; }
};

}  // namespace tessera::data
