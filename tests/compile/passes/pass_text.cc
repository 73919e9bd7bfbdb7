#include "tests/compile/passes/pass_text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "compile/compile.h"
#include "model/presets.h"

namespace tessera::testing {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Lines that the two texts do not share, by their longest common subsequence.
std::string changed_lines(const Lines& a, const Lines& b) {
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t j = b.size(); j-- > 0;)
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::string out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      out += "-" + a[i++] + "\n";
    } else {
      out += "+" + b[j++] + "\n";
    }
  }
  return out;
}

}  // namespace

compile::CompileRequest tiny_request(model::Family family) {
  compile::CompileRequest r;
  model::apply_family(family, r.model);
  r.model.layers = 1;
  r.model.hidden = 16;
  r.model.heads = 2;
  r.model.vocabulary = r.model.vocabulary_multiple = 32;
  r.model.context = 16;
  model::derive_sizes(r.model);
  r.tokens = 16;
  r.layout.overlap = 0;
  r.options.fuse_bias_gelu = r.options.fuse_residual_norm = false;
  return r;
}

void expect_change(const std::string& name, const compile::CompileRequest& request) {
  Lines before;
  bool ran = false;
  std::string text;
  compile::compile_through(name, request, {},
                           [&](const compile::Pass& pass, const compile::State& state) {
                             ran = pass.name == name;
                             if (!ran) return void(before = lines_of(compile::print(state)));
                             text = changed_lines(before, lines_of(compile::print(state)));
                           });
  ASSERT_TRUE(ran) << "the pass " << name << " did not run";
  const Path file = Path(TESSERA_PASS_TEXTS) / (name + ".txt");
  if (writes_texts) return write_file(file, text);
  EXPECT_EQ(text, read_file(file)) << "After an intended change: pass_test --write";
}

}  // namespace tessera::testing
