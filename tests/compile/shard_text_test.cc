// A layer before and after shard and differentiate, as a person reads it. The texts stand in
// tests/compile/golden/; a change of a pass is a change there that can be read.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "compile/graph/graph_passes.h"
#include "ir/print.h"
#include "model/forward.h"
#include "model/presets.h"

namespace tessera::compile {
namespace {

Graph tiny(model::Family family) {
  model::ModelConfig m;
  m.family = family;
  m.layers = 2;
  m.hidden = 32;
  m.heads = 4;
  m.vocabulary = 50;
  m.vocabulary_multiple = 1;
  m.context = 8;
  model::derive_sizes(m);
  return model::forward(m, 4, 8);
}

// The block's part of the graph's text, and after it the values' places.
std::string block_text(const Graph& g, const std::string& name) {
  const std::string all = print(g);
  const size_t begin = all.find("block " + name);
  std::string text = all.substr(begin, all.find("\nblock ", begin + 1) - begin);
  if (text.back() != '\n') text += '\n';
  text += "places\n";
  std::istringstream lines(all.substr(0, begin));
  for (std::string line; std::getline(lines, line);) {
    const bool its = line.find(" " + name + ".") != std::string::npos;
    const size_t place = line.find(" place=");
    if (!its || place == std::string::npos) continue;
    const size_t first = line.find_first_not_of(' ');
    text += "  " + line.substr(first, line.find(' ', line.find(' ', first) + 1) - first) +
            line.substr(place, line.find(' ', place + 1) - place) + "\n";
  }
  return text;
}

std::string golden(const std::string& name) {
  std::ifstream file(std::string(TESSERA_TEXTS) + "/" + name + ".txt");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Graph sharded(Graph g, bool sequence_parallel) {
  g.mesh[AxisKind::kTensor] = 2;
  Layout layout;
  layout.sequence_parallel = sequence_parallel;
  shard(g, layout);
  return g;
}

TEST(ShardText, LayerBeforeAndAfter) {
  const Graph whole = tiny(model::Family::kNeox);
  EXPECT_EQ(block_text(whole, "layer"), golden("neox_layer"));
  EXPECT_EQ(block_text(sharded(whole, false), "layer"), golden("neox_layer_tensor2"));
  Graph g = sharded(whole, true);
  EXPECT_EQ(block_text(g, "layer"), golden("neox_layer_tensor2_sequence"));
  differentiate(g);
  remove_mark_shared(g);
  EXPECT_EQ(block_text(g, "layer"), golden("neox_layer_tensor2_sequence_differentiated"));
}

TEST(ShardText, EmbeddingAndHead) {
  Graph g = sharded(tiny(model::Family::kGpt2), true);
  EXPECT_EQ(block_text(g, "embed"), golden("gpt2_embed_tensor2_sequence"));
  differentiate(g);
  remove_mark_shared(g);
  EXPECT_EQ(block_text(g, "head"), golden("gpt2_head_tensor2_sequence_differentiated"));
}

}  // namespace
}  // namespace tessera::compile
