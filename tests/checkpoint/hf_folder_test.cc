#include "tests/checkpoint/hf_folder.h"

#include <cstring>
#include <fstream>

#include "checkpoint/folders.h"
#include "checkpoint/hf_source.h"
#include "tests/every_family.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

TEST_F(HfFolder, TensorsKeepEveryByteInEveryType) {
  for (const model::Family family : every_family())
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const char* name : {"hf", "checkpoint", "back"}) fs::remove_all(at(name));
      write_folder(at("hf"), small(family), type);
      const HfImport made = import_hf(at("hf"), at("checkpoint"), "0.1.0");
      EXPECT_EQ(made.stored_as, type);
      export_hf(at("checkpoint"), at("back"), {type, 5000});
      const SafetensorsFolder before(at("hf")), after(at("back"));
      ASSERT_EQ(before.names(), after.names());
      for (const std::string& name : before.names()) {
        const auto x = *before.find(name), y = *after.find(name);
        EXPECT_EQ(x.entry->shape, y.entry->shape);
        EXPECT_TRUE(std::ranges::equal(x.bytes, y.bytes)) << name;
      }
    }
}

// Any box of a folder's tensors is what it is of the checkpoint that is made of it, GPT-2's
// transposed matrices too: so each rank can read its part.
TEST_F(HfFolder, BoxesAreReadWithoutImport) {
  for (const model::Family family : every_family()) {
    for (const char* name : {"hf", "checkpoint"}) fs::remove_all(at(name));
    write_folder(at("hf"), small(family), DType::kBF16);
    import_hf(at("hf"), at("checkpoint"), "0.1.0");
    CheckpointReader imported(at("checkpoint")), folder(resolve_checkpoint(at("hf")));
    EXPECT_EQ(to_json(folder.header().model), to_json(imported.header().model));
    ASSERT_EQ(folder.tensors().size(), imported.tensors().size());
    for (const StoredTensor& t : imported.tensors()) {
      std::vector<int64_t> begin, end;
      for (const int64_t n : t.shape.dims()) {  // a middle part of each dimension that has one
        begin.push_back(n / 3);
        end.push_back(n - n / 4);
      }
      Shape part = t.shape;
      for (int d = 0; d < part.rank(); ++d)
        part[d] = end[static_cast<size_t>(d)] - begin[static_cast<size_t>(d)];
      std::vector<float> wanted(static_cast<size_t>(part.elements())), got(wanted.size());
      imported.read(t.name, begin, end, {wanted.data(), DType::kF32, part});
      folder.read(t.name, begin, end, {got.data(), DType::kF32, part});
      EXPECT_EQ(got, wanted) << t.name;
      wanted.resize(static_cast<size_t>(t.shape.elements()));
      got.resize(wanted.size());
      imported.read(t.name, {wanted.data(), DType::kF32, t.shape});
      folder.read(t.name, {got.data(), DType::kF32, t.shape});
      EXPECT_EQ(got, wanted) << t.name;
    }
  }
}

TEST_F(HfFolder, ImportedWeightsLieAsTheModelReadsThem) {
  write_folder(at("hf"), small(model::Family::kGpt2), DType::kF32);
  import_hf(at("hf"), at("checkpoint"), "0.1.0");
  CheckpointReader reader(at("checkpoint"));
  std::vector<float> up(40 * 24);
  reader.read("layer1.mlp.up.weight", {up.data(), DType::kF32, Shape{40, 24}});
  const SafetensorsFolder folder(at("hf"));
  const auto theirs = *folder.find("transformer.h.1.mlp.c_fc.weight");
  for (size_t out = 0; out < 40; ++out)
    for (size_t in = 0; in < 24; ++in) {
      float x = 0;
      std::memcpy(&x, theirs.bytes.data() + (in * 40 + out) * 4, 4);
      ASSERT_EQ(up[out * 24 + in], x);
    }
}

// The element of theirs at [row, column] of a matrix of `columns`.
float element(const SafetensorsFolder& folder, const std::string& name, size_t row, size_t columns,
              size_t column) {
  float x = 0;
  std::memcpy(&x, folder.find(name)->bytes.data() + (row * columns + column) * 4, 4);
  return x;
}

TEST_F(HfFolder, TensorsThatLieApartAreJoined) {
  write_folder(at("hf"), small(model::Family::kLlama), DType::kF32);
  const HfImport made = import_hf(at("hf"), at("checkpoint"), "0.1.0");
  CheckpointReader reader(at("checkpoint"));
  EXPECT_EQ(made.tensors, 2 * 9 + 3);
  const SafetensorsFolder folder(at("hf"));
  constexpr size_t K = 2, G = 2, D = 6, F = 24, M = 40;
  std::vector<float> qkv(K * (G + 2) * D * F), up(M * 2 * F);
  reader.read("layer1.attn.qkv.weight", {qkv.data(), DType::kF32, Shape{2, 4, 6, 24}});
  reader.read("layer1.mlp.up.weight", {up.data(), DType::kF32, Shape{40, 2, 24}});
  const std::string attention = "model.layers.1.self_attn.", mlp = "model.layers.1.mlp.";
  for (size_t k = 0; k < K; ++k)
    for (size_t d = 0; d < D; ++d)
      for (size_t f = 0; f < F; ++f) {
        const auto ours = [&](size_t slot) { return qkv[((k * (G + 2) + slot) * D + d) * F + f]; };
        for (size_t g = 0; g < G; ++g)
          ASSERT_EQ(ours(g),
                    element(folder, attention + "q_proj.weight", (k * G + g) * D + d, F, f));
        ASSERT_EQ(ours(G), element(folder, attention + "k_proj.weight", k * D + d, F, f));
        ASSERT_EQ(ours(G + 1), element(folder, attention + "v_proj.weight", k * D + d, F, f));
      }
  for (size_t m = 0; m < M; ++m)
    for (size_t f = 0; f < F; ++f) {
      ASSERT_EQ(up[m * 2 * F + f], element(folder, mlp + "gate_proj.weight", m, F, f));
      ASSERT_EQ(up[(m * 2 + 1) * F + f], element(folder, mlp + "up_proj.weight", m, F, f));
    }
}

TEST_F(HfFolder, NamesWithoutPrefixAndMasksAreAccepted) {
  FolderFault bare;
  bare.without_prefix = true;
  write_folder(at("hf"), small(model::Family::kGpt2), DType::kF32, bare);
  const HfImport made = import_hf(at("hf"), at("checkpoint"), "0.1.0");
  EXPECT_EQ(made.skipped, std::vector<std::string>{"h.0.attn.bias"});
  EXPECT_EQ(made.tensors,
            static_cast<int64_t>(model::hf_tensors(small(model::Family::kGpt2)).size()));
}

// A second embedding, which versions of transformers use or not.
TEST_F(HfFolder, CopiesOfTheEmbeddingMustBeCopies) {
  const model::ModelConfig m = small(model::Family::kGpt2);
  for (const bool same : {true, false}) {
    fs::create_directories(at("hf"));
    std::vector<SafetensorsPlan> plans;
    for (const model::HfTensor& t : model::hf_tensors(m))
      plans.push_back({t.theirs, DType::kF32, t.their_shape});
    plans.push_back({"lm_head.weight", DType::kF32, plans[0].shape});
    write_safetensors(at("hf") / "model.safetensors", plans, [&](size_t i) {
      return pattern(i + 1 == plans.size() && same ? 0 : i, DType::kF32);
    });
    write_file(at("hf") / "config.json", to_json(model::hf_config_of_model(m, {}, DType::kF32), 2));
    if (same)
      EXPECT_EQ(open_hf(at("hf")).skipped, std::vector<std::string>{"lm_head.weight"});
    else
      EXPECT_NE(import_error().find("lm_head.weight: differs from transformer.wte.weight"),
                std::string::npos);
  }
}

TEST_F(HfFolder, ADecoderThatBeginsOtherwiseIsRefused) {
  write_folder(at("hf"), small(model::Family::kT5), DType::kF32);
  write_file(at("hf") / "generation_config.json", R"({"decoder_start_token_id": 9})");
  EXPECT_NE(import_error().find("generation_config.json:1:28: decoder_start_token_id is 9"),
            std::string::npos);
}

TEST_F(HfFolder, AnExportHasNoPaddingOfTheVocabulary) {
  for (const model::Family family : every_family()) {
    for (const char* name : {"hf", "checkpoint", "changed", "back", "again"})
      fs::remove_all(at(name));
    write_folder(at("hf"), small(family), DType::kF32);
    import_hf(at("hf"), at("checkpoint"), "0.1.0");
    CheckpointReader reader(at("checkpoint"));
    CheckpointHeader header = reader.header();
    model::ModelConfig model = small(family);
    model.vocabulary = 27;
    model.vocabulary_multiple = 10;  // 30 rows, as before
    header.model = to_tree(model);
    const StoredState state(reader);
    save(at("changed"), header, state.tensors);
    for (const auto& [tokenizer, rows] : {std::pair(0, 27), {29, 29}, {99, 30}}) {
      for (const char* name : {"back", "again"}) fs::remove_all(at(name));
      HfExportOptions options;
      options.tokenizer_vocabulary = tokenizer;
      EXPECT_EQ(export_hf(at("changed") / "0", at("back"), options).model.vocabulary, rows);
      EXPECT_EQ(import_hf(at("back"), at("again"), "0.1.0").model.padded_vocabulary(), rows);
      const SafetensorsFolder before(at("hf")), after(at("back"));
      ASSERT_EQ(before.names(), after.names());
      for (const std::string& name : before.names()) {
        const auto x = *before.find(name), y = *after.find(name);
        const bool padded = x.entry->shape[0] == 30;
        EXPECT_EQ(y.entry->shape[0], padded ? rows : x.entry->shape[0]) << name;
        EXPECT_TRUE(std::ranges::equal(x.bytes.first(y.bytes.size()), y.bytes)) << name;
      }
    }
  }
}

// As transformers 5 writes T5 and mT5 that it made itself.
TEST_F(HfFolder, AHeadOfT5ThatIsMissingIsTiedAndNotScaled) {
  model::ModelConfig m = small(model::Family::kT5);
  m.tied_embeddings = true;
  m.scaled_head = false;
  write_folder(at("hf"), m, DType::kF32);
  const HfImport made = import_hf(at("hf"), at("checkpoint"), "0.1.0");
  EXPECT_TRUE(made.model.tied_embeddings);
  EXPECT_FALSE(made.model.scaled_head);
  export_hf(at("checkpoint"), at("back"), {});
  EXPECT_EQ(SafetensorsFolder(at("hf")).names(), SafetensorsFolder(at("back")).names());
  CheckpointReader folder(resolve_checkpoint(at("back")));
  EXPECT_EQ(to_json(folder.header().model), to_json(to_tree(made.model)));
}

// Families have fewer keys for dropout than the model has.
TEST_F(HfFolder, DropoutThatConfigJsonCannotSayIsTold) {
  const auto unsaid = [&](model::Family family, double outputs, double attention,
                          double embeddings) {
    for (const char* name : {"hf", "checkpoint", "back"}) fs::remove_all(at(name));
    const model::ModelConfig plain = small(family);
    write_folder(at("hf"), plain, DType::kF32);
    import_hf(at("hf"), at("checkpoint"), "0.1.0");
    CheckpointReader reader(at("checkpoint"));
    CheckpointHeader header = reader.header();
    model::ModelConfig model = plain;
    model.dropout = outputs;
    model.attention_dropout = attention;
    model.embedding_dropout = embeddings;
    header.model = to_tree(model);
    const StoredState state(reader);
    fs::remove_all(at("changed"));
    save(at("changed"), header, state.tensors);
    return export_hf(at("changed") / "0", at("back"), {}).unsaid;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(unsaid(model::Family::kGpt2, 0.25, 0.5, 0.125), Lines());
  EXPECT_EQ(unsaid(model::Family::kNeox, 0.25, 0.5, -1), Lines());
  EXPECT_EQ(unsaid(model::Family::kNeox, 0.25, 0.5, 0),
            Lines{"model.embedding_dropout = 0, which transformers reads as 0.25"});
  EXPECT_EQ(unsaid(model::Family::kLlama, 0.25, 0.5, -1),
            Lines{"model.dropout = 0.25, which transformers reads as 0"});
  EXPECT_EQ(unsaid(model::Family::kT5, 0.25, 0, -1),
            Lines{"model.attention_dropout = 0, which transformers reads as 0.25"});
}

TEST_F(HfFolder, TheMasterCopyIsWhatIsExported) {
  write_folder(at("hf"), small(model::Family::kNeox), DType::kF32);
  import_hf(at("hf"), at("checkpoint"), "0.1.0");
  CheckpointReader reader(at("checkpoint"));
  StoredState state(reader);
  std::vector<float> master(24, 0.1f);
  state.tensors.push_back({"head.norm.gain|master",
                           DType::kF32,
                           {24},
                           {},
                           {},
                           {master.data(), DType::kF32, Shape{24}}});
  save(at("checkpoints"), reader.header(), state.tensors);
  export_hf(at("checkpoints") / "0", at("back"), {});
  const SafetensorsFolder folder(at("back"));
  const auto gain = *folder.find("gpt_neox.final_layer_norm.weight");
  EXPECT_EQ(std::memcmp(gain.bytes.data(), master.data(), 24 * 4), 0);
}

TEST_F(HfFolder, AllFaultsOfTheTensorsAreListedAtOnce) {
  FolderFault change{"gpt_neox.layers.0.mlp.dense_h_to_4h.bias", "embed_out.weight", "head.weight",
                     "gpt_neox.layers.1.input_layernorm.bias", false};
  write_folder(at("hf"), small(model::Family::kNeox), DType::kF32, change);
  const std::string said = import_error();
  for (const char* words :
       {"gpt_neox.layers.0.mlp.dense_h_to_4h.bias: missing, expected [40]",
        "embed_out.weight: missing, expected [30, 24]", "head.weight: not a tensor of this model",
        "gpt_neox.layers.1.input_layernorm.bias: has the shape [25], expected [24]"})
    EXPECT_NE(said.find(words), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(at("checkpoint")));
  EXPECT_FALSE(fs::exists(at("checkpoint.part")));
}

TEST_F(HfFolder, OtherTypesAreRefusedByName) {
  write_folder(at("hf"), small(model::Family::kNeox), DType::kF64);
  EXPECT_NE(import_error().find("is stored as F64, expected F32, BF16 or F16"), std::string::npos);
}

TEST_F(HfFolder, NothingIsOverwritten) {
  write_folder(at("hf"), small(model::Family::kNeox), DType::kF32);
  fs::create_directories(at("checkpoint"));
  write_file(at("checkpoint") / "mine.txt", "keep");
  EXPECT_NE(import_error().find("exists already"), std::string::npos);
  EXPECT_EQ(read_file(at("checkpoint") / "mine.txt"), "keep");
  import_hf(at("hf"), at("other"), "0.1.0");
  EXPECT_NE(error_of([&] { export_hf(at("other"), at("checkpoint"), {}); }).find("exists already"),
            std::string::npos);
}

TEST_F(HfFolder, APointerToAFileIsNotTheFile) {
  write_folder(at("hf"), small(model::Family::kNeox), DType::kF32);
  write_file(at("hf") / "model.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n");
  EXPECT_NE(import_error().find("model.safetensors: is a Git LFS pointer"), std::string::npos);
}

TEST_F(HfFolder, WhatIsMissingIsNamed) {
  EXPECT_NE(import_error().find("has no config.json"), std::string::npos);
  fs::create_directories(at("hf"));
  write_file(
      at("hf") / "config.json",
      to_json(model::hf_config_of_model(small(model::Family::kNeox), std::nullopt, DType::kF32)));
  EXPECT_NE(import_error().find("neither model.safetensors nor"), std::string::npos);
}

TEST_F(HfFolder, ACheckpointOfNoModelCannotBeExported) {
  CheckpointHeader header;
  header.model.set("family", Tree(std::string("neox")));
  save(at("checkpoints"), header, {});
  const std::string said = error_of([&] { export_hf(at("checkpoints") / "0", at("back"), {}); });
  EXPECT_NE(said.find("describes an invalid model"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(at("back")));
}

}  // namespace
}  // namespace tessera::checkpoint
