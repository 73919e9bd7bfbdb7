#include "config/foreign_keys.h"

#include <gtest/gtest.h>

#include <set>

#include "base/renamed_keys.h"
#include "config/run_config.h"

namespace tessera::config {
namespace {

std::set<std::string> paths() {
  RunConfig config;
  std::set<std::string> all;
  for (const Field& f : fields_of(config)) all.insert(f.path);
  return all;
}

std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    read_run(parse_yaml(yaml, "run.yaml"), "run.yaml", overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// The texts in backquotes.
std::vector<std::string> quoted(std::string_view advice) {
  std::vector<std::string> all;
  for (size_t at = advice.find('`'); at != advice.npos;) {
    const size_t end = advice.find('`', at + 1);
    if (end == advice.npos) {
      ADD_FAILURE() << "an open quote: " << advice;
      break;
    }
    all.emplace_back(advice.substr(at + 1, end - at - 1));
    at = advice.find('`', end + 1);
  }
  return all;
}

TEST(ForeignKeys, EachAnswerNamesKeysThatExist) {
  const std::set<std::string> known = paths();
  std::set<std::string_view> names;
  EXPECT_GE(foreign_keys().size(), 80u);
  for (const ForeignKey& k : foreign_keys()) {
    EXPECT_TRUE(names.insert(k.name).second) << k.name << " is there twice";
    EXPECT_EQ(known.count(std::string(k.name)), 0u) << k.name << " is a key of this program";
    EXPECT_FALSE(k.key.empty() && k.advice.empty()) << k.name;
    EXPECT_TRUE(k.key.empty() || known.contains(std::string(k.key))) << k.name << ": " << k.key;
    for (const std::string& text : quoted(k.advice)) {
      if (text.starts_with("tessera ")) continue;
      EXPECT_EQ(known.count(text.substr(0, text.find(':'))), 1u) << k.name << ": " << text;
    }
  }
}

TEST(ForeignValues, EachAnswerNamesAnAcceptedValue) {
  for (const ForeignValue& v : foreign_values()) {
    EXPECT_TRUE(paths().contains(std::string(v.key))) << v.key;
    EXPECT_TRUE(error_of("", {fmt::format("{}={}", v.key, v.value)})
                    .starts_with(fmt::format("command line: {}: found '{}'; use ", v.key, v.value)))
        << v.value;
    for (const std::string& text : quoted(v.advice)) {
      const size_t colon = text.find(": ");
      if (colon == text.npos || text.ends_with(":N")) continue;  // a key alone, or a value alone
      const std::string own = text.substr(0, colon) + "=" + text.substr(colon + 2);
      EXPECT_EQ(error_of("", {own}).find("found"), std::string::npos) << own << error_of("", {own});
    }
  }
}

TEST(ForeignValues, AnswersOfARunFile) {
  EXPECT_EQ(error_of("precision: fp8\n"),
            "run.yaml:1:12: precision: found 'fp8'; use compiler.gemm_dtype: fp8 with precision: "
            "bf16");
  EXPECT_EQ(error_of("precision: BFloat16\n"),
            "run.yaml:1:12: precision: found 'BFloat16'; use precision: bf16, which keeps f32 "
            "master weights");
  EXPECT_EQ(error_of("precision: 32\n"),
            "run.yaml:1:12: precision: found '32'; use precision: fp32");
  EXPECT_EQ(error_of("layout: { recompute: true }\n"),
            "run.yaml:1:22: layout.recompute: found 'true'; use layout.recompute: selective or "
            "full");
}

TEST(ForeignKeys, AnswersOfARunFile) {
  EXPECT_EQ(error_of("model: { layers: 2 }\nbatch: { global: 1 }\nmax_steps: 100\n"),
            "run.yaml:3:1: unknown key 'max_steps' (Hugging Face Trainer, axolotl): use "
            "schedule.steps");
  EXPECT_EQ(error_of("zero_optimization:\n  stage: 2\n"),
            "run.yaml:2:3: unknown key 'zero_optimization.stage' (DeepSpeed): use layout.zero");
  EXPECT_EQ(error_of("zero_optimization:\n  contiguous_gradients: true\n"),
            "run.yaml:2:3: unknown key 'zero_optimization.contiguous_gradients' (DeepSpeed): use "
            "layout.zero");
  EXPECT_EQ(error_of("optimizer: { type: AdamW, params: { lr: 1.0e-4 } }\n"),
            "run.yaml:1:14: unknown key 'optimizer.type' (DeepSpeed): use optimizer.kind");
  EXPECT_EQ(error_of("optimizer: { params: { lr: 1.0e-4 } }\n"),
            "run.yaml:1:24: unknown key 'optimizer.params.lr' (Megatron-LM, DeepSpeed, "
            "torchtitan): use optimizer.learning_rate");
  EXPECT_EQ(error_of("training:\n  steps: 10\n"),
            "run.yaml:2:3: unknown key 'training.steps' (torchtitan): use schedule.steps");
  EXPECT_EQ(error_of("gradient_accumulation_steps: 8\n"),
            "run.yaml:1:1: unknown key 'gradient_accumulation_steps' (Hugging Face Trainer, "
            "DeepSpeed, axolotl): set batch.global: gradient accumulation steps = batch.global / "
            "(batch.micro x data-parallel ranks)");
  EXPECT_EQ(error_of("", {"max_steps=10"}),
            "command line: unknown key 'max_steps' (Hugging Face Trainer, axolotl): use "
            "schedule.steps");
  EXPECT_NE(error_of("", {"zero_optimization={stage: 1}"})
                .find("unknown key 'zero_optimization.stage' (DeepSpeed): use layout.zero"),
            std::string::npos);
}

// The names in the table of docs/tutorials/from_axolotl.md and in usual configurations. A name
// without an entry ends in a guess by spelling or in none.
TEST(ForeignKeys, NamesOfFineTuningHaveAnAnswer) {
  for (const char* name : {"packing",
                           "eval_packing",
                           "eval_sample_packing",
                           "pad_to_sequence_len",
                           "group_by_length",
                           "assistant_only_loss",
                           "completion_only_loss",
                           "train_on_eos",
                           "chat_template_path",
                           "val_set_size",
                           "dataset_prepared_path",
                           "dataset_name",
                           "dataloader_num_workers",
                           "special_tokens",
                           "tokens",
                           "eos_token",
                           "tokenizer_type",
                           "trust_remote_code",
                           "torch_dtype",
                           "use_peft",
                           "lora_target_linear",
                           "lora_modules_to_save",
                           "dpo_beta",
                           "loss_type",
                           "precompute_ref_log_probs",
                           "ref_model",
                           "max_prompt_length",
                           "eval_strategy",
                           "save_strategy",
                           "evals_per_epoch",
                           "saves_per_epoch",
                           "early_stopping_patience",
                           "logging_dir",
                           "hub_model_id",
                           "neftune_noise_alpha",
                           "use_liger_kernel",
                           "plugins",
                           "strict",
                           "truncation_mode",
                           "load_best_model_at_end",
                           "gradient_checkpointing_kwargs"}) {
    const std::string message = error_of(fmt::format("{}: 1\n", name));
    EXPECT_TRUE(message.starts_with(fmt::format("run.yaml:1:1: unknown key '{}' (", name)))
        << message;
  }
  EXPECT_EQ(
      error_of("val_set_size: 0.1\n"),
      "run.yaml:1:1: unknown key 'val_set_size' (axolotl): write the held-out lines to a file "
      "of their own and list it in data.validation");
  EXPECT_EQ(error_of("loss_type: ipo\n"),
            "run.yaml:1:1: unknown key 'loss_type' (TRL): use objective.kind: dpo for sigmoid, ipo "
            "for ipo, simpo for simpo");
  // In a section, such a general name is a mistyped key of ours.
  EXPECT_EQ(error_of("schedule: { tokens: 1 }\n").find("axolotl"), std::string::npos);
}

TEST(ForeignKeys, OwnKeysAndMistypedOnesAreLeftToTheReader) {
  EXPECT_EQ(error_of("schedule: { steps: 5 }\nrun: { name: x }\n", {"model={layers: 2}"}),
            "no error");
  EXPECT_NE(error_of("schedule: { step: 5 }\n").find("Did you mean 'schedule.steps'?"),
            std::string::npos);
  EXPECT_NE(error_of("schedule: { floor: 0.1 }\n").find("(renamed): use schedule.min_lr_ratio"),
            std::string::npos);
  // The same leaf in a list of another section is not looked at.
  EXPECT_NE(error_of("data: { train: [{ prefix: a, seed: 1 }] }\n").find("unknown key 'seed'"),
            std::string::npos);
}

// Every renamed key with an old value, in the order of the table of base/renamed_keys.cc.
constexpr const char* kOld =
    "run: { products: proposed }\n"
    "model: { rotary_share: 0.5, rotary_base: 500, rotary_scale: { factor: 8, low: 1, high: 4, "
    "context: 64 } }\n"
    "data: { documents_apart: true, long_examples: cut }\n"
    "batch: { ramp: [1], ramp_steps: 2 }\n"
    "schedule: { floor: 0.1, floor_rule: blend }\n"
    "optimizer: { decay: all, moments: bf16, update_clip: 2, scale_by_weight: false, least_scale: "
    "0.1, groups: [{ match: [a], decay: all }] }\n"
    "loss_scale: { least: 2 }\n"
    "compiler: { attention: materialised, scores: half, selective: attention, again: whole, masks: "
    "kept, sent: kept, gradients: half, communication: half, accumulate: apart, products: stored "
    "}\n";

TEST(RenamedKeys, APresentNameIsAKeyAndItsValuesAreRead) {
  const Tree old = parse_yaml(kOld, "run.yaml");
  const RunConfig c = read_run(with_present_names(old), "run.yaml", {});
  EXPECT_EQ(c.run.kernel_selection, KernelSelection::kHeuristic);
  EXPECT_EQ(c.model.rope_scaling.original_max_position_embeddings, 64);
  EXPECT_EQ(c.data.long_examples, data::LongExamples::kTruncate);
  EXPECT_EQ(c.schedule.min_lr_mode, MinLrMode::kInterpolate);
  EXPECT_EQ(c.compiler.dropout_masks, compile::DropoutMaskPolicy::kStore);
  EXPECT_EQ(c.compiler.grad_reduce_dtype, compile::GradReduceDType::kWeight);
  EXPECT_FALSE(c.compiler.deallocate_pipeline_outputs);
  EXPECT_FALSE(c.compiler.fuse_grad_accumulation);
  // Each old key alone is rejected with its new name, and the key of a group, too.
  for (const auto& [section, members] : *old.as_members())
    for (const auto& [name, value] : *members.as_members()) {
      Tree one = Tree::object();
      one.set(name, value);
      Tree file = Tree::object();
      file.set(section, std::move(one));
      std::string error = "no error";
      try {
        read_run(file, "run.yaml", {});
      } catch (const Error& e) {
        error = e.what();
      }
      const bool renamed = error.find("(renamed): use ") != std::string::npos ||
                           error.find("' is now '") != std::string::npos;
      EXPECT_TRUE(renamed) << section << '.' << name << ": " << error;
    }
}

struct Answer {
  const char* name;
  const char* advice;
};

// Names as people write them, from each program.
constexpr Answer kAnswers[] = {
    {"max_steps", "use schedule.steps"},
    {"train-iters", "use schedule.steps"},
    {"num_train_epochs",
     "use schedule.steps = epochs x samples / batch.global, or schedule.tokens = epochs x tokens"},
    {"--train-samples", "use schedule.tokens = samples x data.sequence_length"},
    {"train_tokens", "use schedule.tokens"},
    {"train_batch_size", "use batch.global"},
    {"global-batch-size", "use batch.global"},
    {"micro_batch_size", "use batch.micro"},
    {"micro-batch-size", "use batch.micro"},
    {"train_micro_batch_size_per_gpu", "use batch.micro"},
    {"per_device_train_batch_size", "use batch.micro"},
    {"rampup-batch-size",
     "list the sizes in batch.warmup_sizes, and set batch.warmup_steps_per_size"},
    {"seq-length", "use data.sequence_length"},
    {"training.seq_len", "use data.sequence_length"},
    {"sequence_len", "use data.sequence_length"},
    {"lr", "use optimizer.learning_rate"},
    {"learning_rate", "use optimizer.learning_rate"},
    {"optimizer.params.lr", "use optimizer.learning_rate"},
    {"min-lr", "use schedule.min_lr_ratio = minimum / peak learning rate"},
    {"lr_scheduler_type", "use schedule.kind"},
    {"lr-decay-style", "use schedule.kind"},
    {"lr-warmup-iters", "use schedule.warmup_steps"},
    {"warmup_steps", "use schedule.warmup_steps"},
    {"warmup_ratio", "use schedule.warmup_steps = ratio x schedule.steps"},
    {"scheduler.params.warmup_num_steps", "use schedule.warmup_steps"},
    {"lr-decay-iters", "use schedule.decay_steps = lr-decay-iters - schedule.warmup_steps"},
    {"optim", "use optimizer.kind"},
    {"weight_decay", "use optimizer.weight_decay"},
    {"adam_beta1", "use optimizer.beta1"},
    {"adam-beta2", "use optimizer.beta2"},
    {"adam_epsilon", "use optimizer.epsilon"},
    {"clip-grad", "use optimizer.clip_norm"},
    {"gradient_clipping", "use optimizer.clip_norm"},
    {"max_grad_norm", "use optimizer.clip_norm"},
    {"bf16", "use precision: bf16"},
    {"bf16.enabled", "use precision: bf16"},
    {"fp16.enabled", "use precision: fp16"},
    {"fp16.initial_scale_power", "use loss_scale.initial = 2 ^ initial_scale_power"},
    {"min-loss-scale", "use loss_scale.min"},
    {"tensor-model-parallel-size", "use layout.tensor"},
    {"parallelism.tensor_parallel_degree", "use layout.tensor"},
    {"pipeline_parallel_degree", "use layout.pipeline"},
    {"pipeline-model-parallel-size", "use layout.pipeline"},
    {"context-parallel-size", "use layout.context"},
    {"distributed-optimizer", "use layout.zero: 1"},
    {"use-distributed-optimizer", "use layout.zero: 1"},
    {"zero_optimization.stage", "use layout.zero"},
    {"fsdp", "use layout.zero: 3 for full sharding"},
    {"recompute-granularity", "use layout.recompute"},
    {"gradient_checkpointing", "use layout.recompute: none | selective | full"},
    {"num-layers", "use model.layers"},
    {"num_hidden_layers", "use model.layers"},
    {"hidden-size", "use model.hidden"},
    {"num_attention_heads", "use model.heads"},
    {"num_key_value_heads", "use model.kv_heads"},
    {"ffn-hidden-size", "use model.feed_forward"},
    {"vocab_size", "use model.vocabulary"},
    {"base_model", "use checkpoint.from"},
    {"lora_r", "use lora.rank"},
    {"lora_alpha", "use lora.alpha"},
    {"output_dir", "use run.directory"},
    {"save_steps", "use checkpoint.every_steps"},
    {"save-interval", "use checkpoint.every_steps"},
    {"save_total_limit", "use checkpoint.keep"},
    {"logging_steps", "use metrics.print_every_steps"},
    {"log-interval", "use metrics.print_every_steps"},
    {"eval_steps", "use metrics.validate_every_steps"},
    {"eval-interval", "use metrics.validate_every_steps"},
    {"seed", "use run.seed"},
    {"--tokenizer-model", "use data.tokenizer"},
    {"rotary-percent", "use model.rotary_pct"},
    {"model.sliding_window",
     "use model.window, and model.window_layers if only some layers have it"},
    {"schedule.epochs",
     "use schedule.steps = epochs x samples / batch.global, or schedule.tokens = epochs x tokens"},
    {"wandb.project",
     "use metrics.tensorboard: true; python -m tessera.wandb RUN --project NAME exports a run"},
    {"layout.dp", "use layout.data"},
    {"layout.tp", "use layout.tensor"},
    {"layout.pp", "use layout.pipeline"},
    {"layout.cp", "use layout.context"},
    {"layout.ep", "use layout.expert"},
    {"--num-experts", "use model.experts"},
    {"num_local_experts", "use model.experts"},
    {"moe_router_topk", "use model.experts_per_token"},
    {"--moe-aux-loss-coeff", "use model.router.balance_loss"},
    {"model.router.aux_loss", "use model.router.balance_loss"},
    {"--moe-expert-capacity-factor", "use model.router.capacity_factor"},
    {"model.capacity_factor", "use model.router.capacity_factor"},
    {"moe_token_drop_policy",
     "remove it: with model.router.capacity_factor the later tokens of a sequence are dropped, as "
     "with moe_token_drop_policy = position"},
    {"first_k_dense_replace",
     "list the dense layers in model.dense_layers: 0 to first_k_dense_replace - 1"},
    {"n_shared_experts",
     "use model.shared_feed_forward = n_shared_experts x moe_intermediate_size"},
    // nanoGPT
    {"n_layer", "use model.layers"},
    {"n_embd", "use model.hidden"},
    {"n_head", "use model.heads"},
    {"block_size", "use data.sequence_length"},
    {"batch_size",
     "use batch.micro, sequences of a micro-batch, and batch.global, sequences of a step"},
    {"max_iters", "use schedule.steps"},
    {"grad_clip", "use optimizer.clip_norm"},
    {"lr_decay_iters", "use schedule.decay_steps = lr-decay-iters - schedule.warmup_steps"},
    {"min_lr", "use schedule.min_lr_ratio = minimum / peak learning rate"},
    {"warmup_iters", "use schedule.warmup_steps"},
    // Megatron-LM
    {"--group-query-attention", "use model.kv_heads, the number of query groups"},
    {"--swiglu", "remove it: it follows from model.family"},
    {"--normalization", "remove it: it follows from model.family"},
    {"--position-embedding-type", "remove it: it follows from model.family"},
    {"--disable-bias-linear", "remove it: it follows from model.family"},
    {"--vocab-file",
     "use data.tokenizer: a tokenizer.json, which contains the vocabulary and the merges"},
    {"--merge-file",
     "use data.tokenizer: a tokenizer.json, which contains the vocabulary and the merges"},
    {"--recompute-method", "use layout.recompute: full for uniform, full:N for block"},
    {"--no-load-optim", "use checkpoint.load: weights, which is the default"},
    {"--finetune", "use checkpoint.from; checkpoint.load: weights, the default, starts at step 0"},
    {"--exit-duration-in-mins", "use run.time_limit, such as 690m"},
    {"--exit-signal-handler",
     "remove it: after SIGINT, SIGTERM or SIGUSR1 a run saves and ends; see tessera submit"},
    {"--transformer-impl",
     "remove it: there is one implementation; compiler.attention and compiler.gemm_dtype choose "
     "how it computes"},
    {"--log-throughput", "remove it: metrics.jsonl has tokens_per_s and model_flops_per_s"},
    // DeepSpeed
    {"offload_optimizer", "use layout.offload: optimizer"},
    {"zero_optimization.offload_optimizer.device", "use layout.offload: optimizer"},
    {"zero_optimization.overlap_comm", "layout.overlap is 1 by default"},
    {"wall_clock_breakdown",
     "use metrics.trace_step: the timeline of that step is written to trace.json"},
    // torchtitan
    {"compile.enable", "remove it: a training step is always compiled"},
    {"checkpoint.enable",
     "checkpoints are saved by default; for none use checkpoint.every_steps: 0 with "
     "checkpoint.save_at_end: false"},
    {"checkpoint.folder", "remove it: checkpoints are in the folder checkpoints of run.directory"},
    {"checkpoint.async_mode", "remove it: a thread saves checkpoints while training continues"},
    {"metrics.enable_wandb",
     "use metrics.tensorboard: true; python -m tessera.wandb RUN --project NAME exports a run"},
    {"profiling.enable_profiling",
     "use metrics.trace_step: the timeline of that step is written to trace.json"},
    {"training.dataset", "use data.train, datasets of tessera data build"},
    {"validation.steps", "use metrics.validate_sequences = steps x sequences per step; 0: all"},
    // Hugging Face Trainer and LLaMA-Factory
    {"data_seed", "remove it: run.seed determines the data order, too"},
    {"lr_scheduler_kwargs", "use the keys next to schedule.kind, such as schedule.min_lr_ratio"},
    {"lr_scheduler_kwargs.min_lr_rate", "use schedule.min_lr_ratio"},
    {"use_cpu", "use run.device: cpu"},
    {"cutoff_len", "use data.sequence_length"},
    {"finetuning_type", "use lora.rank: above 0 for lora, 0 for full"},
    {"Gradient_Accumulation_Steps",
     "set batch.global: gradient accumulation steps = batch.global / (batch.micro x data-parallel "
     "ranks)"},
};

TEST(ForeignKeys, NamesOfEachProgramHaveTheirAnswers) {
  EXPECT_GE(std::size(kAnswers), 60u);
  for (const Answer& a : kAnswers) {
    const std::string found = foreign_key_advice(a.name);
    EXPECT_TRUE(found.ends_with(fmt::format("): {}", a.advice))) << a.name << ": " << found;
  }
  EXPECT_EQ(foreign_key_advice("no_such_name"), "");
  EXPECT_EQ(foreign_key_advice(""), "");
  EXPECT_EQ(foreign_key_advice("..."), "");
  EXPECT_EQ(foreign_key_advice(std::string(100'000, '.')), "");
}

}  // namespace
}  // namespace tessera::config
