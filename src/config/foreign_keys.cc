// The table of foreign names, and the search in it. The names are those of the programs' command
// lines and configuration files: Megatron-LM's arguments.py, DeepSpeed's JSON configuration,
// torchtitan's job configuration, axolotl's YAML, and the fields of Hugging Face's
// TrainingArguments, LoraConfig and model configurations.
#include "config/foreign_keys.h"

#include <algorithm>
#include <cctype>

#include "base/renamed_keys.h"

namespace tessera::config {
namespace {

constexpr std::string_view kHf = "Hugging Face Trainer", kHfModel = "Hugging Face config.json",
                           kPeft = "Hugging Face PEFT", kShort = "common abbreviation",
                           kMegatron = "Megatron-LM", kDeepSpeed = "DeepSpeed",
                           kTitan = "torchtitan", kAxolotl = "axolotl",
                           kHfAndAxolotl = "Hugging Face Trainer, axolotl",
                           kAll = "Megatron-LM, Hugging Face Trainer, axolotl";

constexpr std::string_view kAccumulation =
    "set `batch.global`: gradient accumulation steps = `batch.global` / (`batch.micro` x data-"
    "parallel ranks)";
constexpr std::string_view kEpochs = "use `schedule.steps` = epochs x samples / `batch.global`";
constexpr std::string_view kRatio = "use `schedule.warmup_steps` = ratio x `schedule.steps`";
constexpr std::string_view kSamples = "use `schedule.steps` = samples / `batch.global`";
constexpr std::string_view kMinLr = "use `schedule.min_lr_ratio` = minimum / peak learning rate";
constexpr std::string_view kPerDevice =
    "use `metrics.validate_sequences`; validation uses micro-batches of `batch.micro` sequences";

constexpr std::string_view kWandb =
    "use `metrics.tensorboard: true`; python -m tessera.wandb RUN --project NAME exports a run";

constexpr std::string_view kSweep =
    "use `tessera sweep RUN optimizer.learning_rate=1e-4..1e-2 --trials 16` (docs/sweeps.md)";

// An entry without advice has a key with the same values.
constexpr ForeignKey kKeys[] = {
    // ---- Steps, batches and sequences
    {"max_steps", kHfAndAxolotl, "schedule.steps"},
    {"train_iters", kMegatron, "schedule.steps"},
    {"training.steps", kTitan, "schedule.steps"},
    {"num_train_epochs", kHf, "schedule.steps", kEpochs},
    {"num_epochs", kAxolotl, "schedule.steps", kEpochs},
    {"epochs", kShort, "schedule.steps", kEpochs},
    {"train_samples", kMegatron, "schedule.steps", kSamples},
    {"exit_interval", kMegatron, "run.stop_after_steps"},
    {"train_batch_size", kDeepSpeed, "batch.global"},
    {"global_batch_size", "Megatron-LM, torchtitan", "batch.global"},
    {"micro_batch_size", "Megatron-LM, axolotl", "batch.micro"},
    {"train_micro_batch_size_per_gpu", kDeepSpeed, "batch.micro"},
    {"local_batch_size", kTitan, "batch.micro",
     "use `batch.micro`, the sequences of a micro-batch"},
    {"per_device_train_batch_size", kHf, "batch.micro"},
    {"per_gpu_train_batch_size", kHf, "batch.micro"},
    {"gradient_accumulation_steps", "Hugging Face Trainer, DeepSpeed, axolotl", "", kAccumulation},
    {"rampup_batch_size", kMegatron, "batch.warmup_sizes",
     "list the sizes in `batch.warmup_sizes`, and set `batch.warmup_steps_per_size`"},
    {"seq_length", kMegatron, "data.sequence_length"},
    {"seq_len", kTitan, "data.sequence_length"},
    {"sequence_len", kAxolotl, "data.sequence_length"},
    {"max_seq_length", kHf, "data.sequence_length"},
    {"max_length", kHf, "data.sequence_length"},
    {"encoder_seq_length", kMegatron, "data.sequence_length"},
    {"decoder_seq_length", kMegatron, "data.target_length"},
    // ---- Loss
    {"label_smoothing_factor", kHf, "loss.label_smoothing"},
    {"label_smoothing", "fairseq, T5X, common abbreviation", "loss.label_smoothing"},
    {"z_loss", "T5X, common abbreviation", "loss.z_loss"},
    {"z_loss_multiplier", "MaxText, OLMo-core", "loss.z_loss"},
    {"auxiliary_loss_multiplier", "OLMo", "loss.z_loss"},
    {"softmax_auxiliary_loss", "OLMo", "loss.z_loss",
     "use `loss.z_loss`: its coefficient; 0: none"},
    // ---- Optimizer and schedule
    {"lr", "Megatron-LM, DeepSpeed, torchtitan", "optimizer.learning_rate"},
    {"learning_rate", kHfAndAxolotl, "optimizer.learning_rate"},
    {"min_lr", kMegatron, "schedule.min_lr_ratio", kMinLr},
    {"min_lr_rate", kHf, "schedule.min_lr_ratio"},
    {"min_lr_factor", kTitan, "schedule.min_lr_ratio"},
    {"cosine_min_lr_ratio", kAxolotl, "schedule.min_lr_ratio"},
    {"lr_decay_style", kMegatron, "schedule.kind"},
    {"lr_scheduler_type", kHf, "schedule.kind"},
    {"lr_scheduler", kAxolotl, "schedule.kind"},
    {"lr_scheduler.decay_type", kTitan, "schedule.kind"},
    {"lr_warmup_iters", kMegatron, "schedule.warmup_steps"},
    {"lr_warmup_fraction", kMegatron, "schedule.warmup_steps", kRatio},
    {"lr_warmup_samples", kMegatron, "schedule.warmup_steps",
     "use `schedule.warmup_steps` = samples / `batch.global`"},
    {"warmup_steps", "Hugging Face Trainer, torchtitan, axolotl", "schedule.warmup_steps"},
    {"warmup_num_steps", kDeepSpeed, "schedule.warmup_steps"},
    {"warmup_ratio", kHfAndAxolotl, "schedule.warmup_steps", kRatio},
    {"lr_decay_iters", kMegatron, "schedule.decay_steps",
     "use `schedule.decay_steps` = lr-decay-iters - `schedule.warmup_steps`"},
    {"lr_wsd_decay_iters", kMegatron, "schedule.decay_steps"},
    {"decay_ratio", kTitan, "schedule.decay_steps",
     "use `schedule.decay_steps` = ratio x `schedule.steps`"},
    {"optim", kHf, "optimizer.kind"},
    {"optimizer.name", kTitan, "optimizer.kind"},
    {"optimizer.type", kDeepSpeed, "optimizer.kind"},
    {"scheduler.type", kDeepSpeed, "schedule.kind"},
    {"weight_decay", kAll, "optimizer.weight_decay"},
    {"adam_beta1", kAll, "optimizer.beta1"},
    {"adam_beta2", kAll, "optimizer.beta2"},
    {"betas", kDeepSpeed, "optimizer.beta1", "use `optimizer.beta1` and `optimizer.beta2`"},
    {"adam_eps", kMegatron, "optimizer.epsilon"},
    {"adam_epsilon", kHfAndAxolotl, "optimizer.epsilon"},
    {"eps", "DeepSpeed, torchtitan", "optimizer.epsilon"},
    {"clip_grad", kMegatron, "optimizer.clip_norm"},
    {"gradient_clipping", kDeepSpeed, "optimizer.clip_norm"},
    {"max_grad_norm", kHfAndAxolotl, "optimizer.clip_norm"},
    {"max_norm", kTitan, "optimizer.clip_norm"},
    {"exp_avg_dtype", kMegatron, "optimizer.moment_dtype"},
    {"optim_bits", "bitsandbytes", "optimizer.moment_dtype",
     "use `optimizer.moment_dtype`: fp32 | bf16 | 8bit"},
    {"unfrozen_parameters", kAxolotl, "optimizer.freeze",
     "use `optimizer.freeze`, which lists the weights that are not trained"},
    {"ema_decay", "NeMo, common abbreviation", "optimizer.ema"},
    {"use_ema", kShort, "optimizer.ema", "use `optimizer.ema`: the decay; 0: no mean is kept"},
    // ---- Precision
    {"bf16", "Megatron-LM, DeepSpeed, Hugging Face Trainer, axolotl", "precision",
     "use `precision: bf16`"},
    {"fp16", "Megatron-LM, DeepSpeed, Hugging Face Trainer, axolotl", "precision",
     "use `precision: fp16`"},
    {"mixed_precision_param", kTitan, "precision"},
    {"mixed_precision_reduce", kTitan, "compiler.grad_reduce_dtype",
     "use `compiler.grad_reduce_dtype`: accum | weight"},
    {"grad_accum_dtype", kDeepSpeed, "compiler.grad_accum_dtype",
     "use `compiler.grad_accum_dtype`: f32 | weight"},
    {"grad_reduce_in_bf16", kMegatron, "compiler.grad_reduce_dtype",
     "use `compiler.grad_reduce_dtype: weight`"},
    {"gradient_accumulation_fusion", kMegatron, "compiler.fuse_grad_accumulation"},
    {"tf32", kHfAndAxolotl, "run.tf32"},
    {"fp8", kAxolotl, "compiler.gemm_dtype", "use `compiler.gemm_dtype: fp8`"},
    {"fp8_format", kMegatron, "compiler.gemm_dtype", "use `compiler.gemm_dtype: fp8`"},
    {"initial_loss_scale", kMegatron, "loss_scale.initial"},
    {"initial_scale_power", kDeepSpeed, "loss_scale.initial",
     "use `loss_scale.initial` = 2 ^ initial_scale_power"},
    {"min_loss_scale", "Megatron-LM, DeepSpeed", "loss_scale.min"},
    {"loss_scale_window", "Megatron-LM, DeepSpeed", "loss_scale.window"},
    // ---- Layout, memory and communication
    {"tensor_model_parallel_size", kMegatron, "layout.tensor"},
    {"tensor_parallel_degree", kTitan, "layout.tensor"},
    {"tensor_parallel_size", kAxolotl, "layout.tensor"},
    {"pipeline_model_parallel_size", kMegatron, "layout.pipeline"},
    {"pipeline_parallel_degree", kTitan, "layout.pipeline"},
    {"pipeline_parallel_schedule", kTitan, "layout.pipeline_schedule"},
    {"num_layers_per_virtual_pipeline_stage", kMegatron, "layout.interleave",
     "use `layout.interleave` = layers / stages / num-layers-per-virtual-pipeline-stage"},
    {"context_parallel_size", "Megatron-LM, axolotl", "layout.context"},
    {"context_parallel_degree", kTitan, "layout.context"},
    {"expert_model_parallel_size", kMegatron, "layout.expert"},
    {"layout.dp", kShort, "layout.data"},
    {"layout.tp", kShort, "layout.tensor"},
    {"layout.pp", kShort, "layout.pipeline"},
    {"layout.cp", kShort, "layout.context"},
    {"layout.ep", kShort, "layout.expert"},
    {"expert_parallel_degree", kTitan, "layout.expert"},
    {"data_parallel_shard_degree", kTitan, "layout.zero_group",
     "use `layout.data`, and `layout.zero: 3` with `layout.zero_group` = shard degree"},
    {"data_parallel_replicate_degree", kTitan, "layout.data",
     "use `layout.data` = replicate degree x shard degree, and `layout.zero_group` = shard degree"},
    {"sequence_parallel", kMegatron, "layout.sequence_parallel"},
    {"distributed_optimizer", kMegatron, "layout.zero", "use `layout.zero: 1`"},
    {"use_distributed_optimizer", kMegatron, "layout.zero", "use `layout.zero: 1`"},
    {"zero_optimization.stage", kDeepSpeed, "layout.zero"},
    {"zero_optimization.offload_optimizer", kDeepSpeed, "layout.offload",
     "use `layout.offload: optimizer`"},
    {"zero_optimization", kDeepSpeed, "layout.zero"},
    {"zero_stage", kDeepSpeed, "layout.zero"},
    {"deepspeed", kHfAndAxolotl, "layout.zero"},
    {"fsdp", kHfAndAxolotl, "layout.zero", "use `layout.zero: 3` for full sharding"},
    {"fsdp_config", kHfAndAxolotl, "layout.zero", "use `layout.zero: 3` for full sharding"},
    {"reduce_bucket_size", kDeepSpeed, "compiler.bucket_bytes",
     "use `compiler.bucket_bytes`, in bytes instead of elements"},
    {"recompute_granularity", kMegatron, "layout.recompute"},
    {"recompute_num_layers", kMegatron, "layout.recompute", "use `layout.recompute: full:N`"},
    {"gradient_checkpointing", kHfAndAxolotl, "layout.recompute",
     "use `layout.recompute`: none | selective | full"},
    {"activation_checkpoint.mode", kTitan, "layout.recompute"},
    {"activation_checkpointing", kDeepSpeed, "layout.recompute"},
    {"optimizer_cpu_offload", kMegatron, "layout.offload", "use `layout.offload: optimizer`"},
    {"use_flash_attn", kMegatron, "compiler.attention", "use `compiler.attention: fused`"},
    {"flash_attention", kAxolotl, "compiler.attention", "use `compiler.attention: fused`"},
    {"attn_implementation", "Hugging Face config.json, axolotl", "compiler.attention"},
    {"reset_attention_mask", kMegatron, "data.intra_document_masking"},
    {"reset_position_ids", kMegatron, "data.intra_document_masking"},
    {"overlap_grad_reduce", kMegatron, "layout.overlap", "`layout.overlap` is 1 by default"},
    {"overlap_param_gather", kMegatron, "layout.overlap", "`layout.overlap` is 1 by default"},
    // ---- Model
    {"num_layers", kMegatron, "model.layers"},
    {"num_hidden_layers", kHfModel, "model.layers"},
    {"hidden_size", "Megatron-LM, Hugging Face config.json", "model.hidden"},
    {"num_attention_heads", "Megatron-LM, Hugging Face config.json", "model.heads"},
    {"num_query_groups", kMegatron, "model.kv_heads"},
    {"num_key_value_heads", kHfModel, "model.kv_heads"},
    {"kv_channels", kMegatron, "model.head_width"},
    {"head_dim", kHfModel, "model.head_width"},
    {"ffn_hidden_size", kMegatron, "model.feed_forward"},
    {"intermediate_size", kHfModel, "model.feed_forward"},
    {"max_position_embeddings", "Megatron-LM, Hugging Face config.json", "model.context"},
    {"vocab_size", "Megatron-LM, Hugging Face config.json", "model.vocabulary"},
    {"make_vocab_size_divisible_by", kMegatron, "model.vocabulary_multiple"},
    {"norm_epsilon", kMegatron, "model.norm_epsilon"},
    {"rms_norm_eps", kHfModel, "model.norm_epsilon"},
    {"layer_norm_eps", kHfModel, "model.norm_epsilon"},
    {"rotary_base", kMegatron, "model.rope_theta"},
    {"rotary_percent", kMegatron, "model.rotary_pct"},
    {"partial_rotary_factor", kHfModel, "model.rotary_pct"},
    {"rope_theta", kHfModel, "model.rope_theta"},
    {"rope_scaling", kHfModel, "model.rope_scaling.factor",
     "use `model.rope_scaling.factor` and the keys next to it, which have the same names"},
    {"tie_word_embeddings", kHfModel, "model.tied_embeddings"},
    {"untie_embeddings_and_output_weights", kMegatron, "model.tied_embeddings",
     "use `model.tied_embeddings: false`"},
    {"sliding_window", kHfModel, "model.window",
     "use `model.window`, and `model.window_layers` if only some layers have it"},
    {"window_size", kMegatron, "model.window",
     "use `model.window` = window_size + 1 (the query itself is counted)"},
    // ---- Experts
    {"num_experts", "Megatron-LM, Hugging Face config.json", "model.experts"},
    {"num_local_experts", kHfModel, "model.experts"},
    {"n_routed_experts", kHfModel, "model.experts"},
    {"moe_router_topk", kMegatron, "model.experts_per_token"},
    {"num_experts_per_tok", kHfModel, "model.experts_per_token"},
    {"moe_ffn_hidden_size", kMegatron, "model.expert_feed_forward"},
    {"moe_intermediate_size", kHfModel, "model.expert_feed_forward"},
    {"moe_router_score_function", kMegatron, "model.router.score"},
    {"scoring_func", kHfModel, "model.router.score"},
    {"norm_topk_prob", kHfModel, "model.router.renormalize"},
    {"moe_router_topk_scaling_factor", kMegatron, "model.router.scale"},
    {"routed_scaling_factor", kHfModel, "model.router.scale"},
    {"moe_router_num_groups", kMegatron, "model.router.groups"},
    {"n_group", kHfModel, "model.router.groups"},
    {"moe_router_group_topk", kMegatron, "model.router.groups_chosen"},
    {"topk_group", kHfModel, "model.router.groups_chosen"},
    {"moe_aux_loss_coeff", kMegatron, "model.router.balance_loss"},
    {"router_aux_loss_coef", kHfModel, "model.router.balance_loss"},
    {"aux_loss_alpha", kHfModel, "model.router.balance_loss"},
    {"aux_loss", kShort, "model.router.balance_loss"},
    {"moe_z_loss_coeff", kMegatron, "model.router.z_loss"},
    {"router_z_loss_coef", kHfModel, "model.router.z_loss"},
    {"moe_router_enable_expert_bias", kMegatron, "model.router.bias"},
    {"moe_router_bias_update_rate", kMegatron, "model.router.bias_rate"},
    {"moe_expert_capacity_factor", kMegatron, "model.router.capacity_factor"},
    {"capacity_factor", "Megatron-LM, DeepSpeed, fairseq", "model.router.capacity_factor"},
    {"expert_capacity", kHfModel, "model.router.capacity_factor",
     "use `model.router.capacity_factor` = expert_capacity x experts / (tokens of a sequence x "
     "experts_per_token)"},
    {"moe_token_drop_policy", kMegatron, "model.router.capacity_factor",
     "remove it: with `model.router.capacity_factor` the later tokens of a sequence are dropped, "
     "as with moe_token_drop_policy = position"},
    {"first_k_dense_replace", kHfModel, "model.dense_layers",
     "list the dense layers in `model.dense_layers`: 0 to first_k_dense_replace - 1"},
    {"mlp_only_layers", kHfModel, "model.dense_layers"},
    {"moe_layer_freq", kMegatron, "model.dense_layers",
     "list the layers without experts in `model.dense_layers`"},
    {"n_shared_experts", kHfModel, "model.shared_feed_forward",
     "use `model.shared_feed_forward` = n_shared_experts x moe_intermediate_size"},
    {"moe_shared_expert_intermediate_size", kMegatron, "model.shared_feed_forward"},
    // ---- Latent attention
    {"q_lora_rank", "Megatron-LM, Hugging Face config.json", "model.latent.query_rank"},
    {"kv_lora_rank", "Megatron-LM, Hugging Face config.json", "model.latent.key_value_rank"},
    {"qk_nope_head_dim", kHfModel, "model.latent.nope_width"},
    {"qk_head_dim", kMegatron, "model.latent.nope_width"},
    {"qk_rope_head_dim", kHfModel, "model.latent.rope_width"},
    {"qk_pos_emb_head_dim", kMegatron, "model.latent.rope_width"},
    {"v_head_dim", "Megatron-LM, Hugging Face config.json", "model.latent.value_width"},
    {"multi_latent_attention", kMegatron, "model.latent.key_value_rank",
     "choose a family that has it, as deepseek_v3"},
    {"hidden_dropout", kMegatron, "model.dropout"},
    {"attention_dropout", "Megatron-LM, Hugging Face config.json", "model.attention_dropout"},
    {"init_method_std", kMegatron, "model.init_std"},
    {"initializer_range", kHfModel, "model.init_std"},
    {"model_type", kHfModel, "model.family"},
    {"flavor", kTitan, "model.preset"},
    {"base_model", kAxolotl, "checkpoint.from"},
    {"model_name_or_path", kHf, "checkpoint.from"},
    {"initial_load_path", kTitan, "checkpoint.from"},
    // ---- LoRA
    {"lora_r", kAxolotl, "lora.rank"},
    {"lora.r", kPeft, "lora.rank"},
    {"lora_alpha", "Hugging Face PEFT, axolotl", "lora.alpha"},
    {"lora_target_modules", kAxolotl, "lora.targets"},
    {"target_modules", kPeft, "lora.targets"},
    {"lora_target_parameters", kAxolotl, "lora.targets"},
    {"target_parameters", kPeft, "lora.targets"},
    {"use_rslora", kPeft, "lora.scaling", "use `lora.scaling: rslora`"},
    {"peft_use_rslora", kAxolotl, "lora.scaling", "use `lora.scaling: rslora`"},
    {"use_dora", kPeft, "lora.kind", "use `lora.kind: dora`"},
    {"peft_use_dora", kAxolotl, "lora.kind", "use `lora.kind: dora`"},
    {"load_in_4bit", "axolotl, Hugging Face BitsAndBytesConfig", "lora.quantize",
     "use `lora.quantize: nf4` with `lora.rank`"},
    {"bnb_4bit_quant_type", kHf, "lora.quantize", "use `lora.quantize: nf4`"},
    {"load_in_8bit", "axolotl, Hugging Face BitsAndBytesConfig", "lora.quantize",
     "use `lora.quantize: nf4`, 4 bits"},
    {"bnb_4bit_compute_dtype", kHf, "precision"},
    {"bnb_4bit_use_double_quant", kHf, "lora.quantize",
     "`lora.quantize: nf4` has double quantization"},
    {"lora_model_dir", kAxolotl, "lora.from"},
    {"lora_dropout", "Hugging Face PEFT, axolotl", "", "adapters have no dropout of their own"},
    {"adapter", kAxolotl, "lora.rank",
     "use `lora.rank`; above 0, LoRA adapters are trained, for qlora with `lora.quantize: nf4`"},
    {"rl", kAxolotl, "objective.kind"},
    {"rl_beta", kAxolotl, "objective.beta"},
    // ---- Data
    {"train_on_inputs", kAxolotl, "data.learn", "use `data.learn: everything`"},
    {"data_path", kMegatron, "data.train"},
    {"valid_data_path", kMegatron, "data.validation"},
    {"split", kMegatron, "data.split"},
    {"tokenizer_model", kMegatron, "data.tokenizer"},
    {"tokenizer_name", kHf, "data.tokenizer"},
    {"tokenizer_path", kTitan, "data.tokenizer"},
    {"datasets", kAxolotl, "data.instructions"},
    {"test_datasets", kAxolotl, "data.validation"},
    {"chat_template", kAxolotl, "data.chat_template"},
    {"chat_template_jinja", kAxolotl, "data.chat_template"},
    {"roles_to_train", kAxolotl, "data.learn"},
    {"field_messages", kAxolotl, "data.keys", "use `data.keys: {messages: NAME}`"},
    {"message_property_mappings", kAxolotl, "data.keys"},
    {"excess_length_strategy", kAxolotl, "data.long_examples",
     "use `data.long_examples`: error | skip | truncate"},
    {"sample_packing", kAxolotl, "data.intra_document_masking",
     "samples are always packed; `data.intra_document_masking` separates their attention"},
    // ---- Run, checkpoints and metrics
    {"seed", kAll, "run.seed"},
    {"output_dir", kHfAndAxolotl, "run.directory"},
    {"save", kMegatron, "run.directory"},
    {"load", kMegatron, "checkpoint.from",
     "a run resumes from its own `run.directory`; to start from another one, use "
     "`checkpoint.from`"},
    {"dump_folder", kTitan, "run.directory"},
    {"run_name", kHf, "run.name"},
    {"save_steps", kHfAndAxolotl, "checkpoint.every_steps"},
    {"save_interval", kMegatron, "checkpoint.every_steps"},
    {"checkpoint.interval", kTitan, "checkpoint.every_steps"},
    {"save_retain_interval", kMegatron, "checkpoint.keep_every_steps"},
    {"save_total_limit", kHfAndAxolotl, "checkpoint.keep"},
    {"keep_latest_k", kTitan, "checkpoint.keep"},
    {"resume_from_checkpoint", kHfAndAxolotl, "checkpoint.resume",
     "a run resumes by default (`checkpoint.resume: auto`)"},
    {"auto_resume_from_checkpoints", kAxolotl, "checkpoint.resume",
     "a run resumes by default (`checkpoint.resume: auto`)"},
    {"logging_steps", kHfAndAxolotl, "metrics.every_steps"},
    {"log_interval", kMegatron, "metrics.every_steps"},
    {"log_freq", kTitan, "metrics.every_steps"},
    {"steps_per_print", kDeepSpeed, "metrics.every_steps"},
    {"eval_steps", kHfAndAxolotl, "metrics.validate_every_steps"},
    {"eval_interval", kMegatron, "metrics.validate_every_steps"},
    {"validation.freq", kTitan, "metrics.validate_every_steps"},
    {"eval_iters", kMegatron, "metrics.validate_sequences",
     "use `metrics.validate_sequences` = eval-iters x `batch.global`"},
    {"per_device_eval_batch_size", kHf, "metrics.validate_sequences", kPerDevice},
    {"tensorboard_dir", kMegatron, "metrics.tensorboard", "use `metrics.tensorboard: true`"},
    {"enable_tensorboard", kTitan, "metrics.tensorboard"},
    {"use_tensorboard", kAxolotl, "metrics.tensorboard"},
    {"wandb_project", kAxolotl, "metrics.tensorboard", kWandb},
    {"wandb", kShort, "metrics.tensorboard", kWandb},
    {"report_to", kHf, "metrics.tensorboard", "use `metrics.tensorboard: true`"},
    // ---- Sweeps, which a command describes and not a run file
    {"n_trials", "Optuna", "", kSweep},
    {"num_samples", "Ray Tune", "", kSweep},
    {"search_space", "Optuna, Ray Tune", "", kSweep},
    {"parameters", "Weights & Biases sweep", "", kSweep},
    {"early_terminate", "Weights & Biases sweep", "",
     "use `tessera sweep --halving 3`, which is successive halving (hyperband with one bracket)"},
    {"hyperparameter_search", kHf, "", kSweep},
};

std::string normalized(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string out(name);
  for (char& c : out)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

const ForeignKey* entry(std::string_view name) {
  const auto* const at = std::find_if(std::begin(kKeys), std::end(kKeys),
                                      [&](const ForeignKey& k) { return k.name == name; });
  return at == std::end(kKeys) ? nullptr : at;
}

// Tries the whole path, then its ends from the longest, then its beginnings from the longest.
const ForeignKey* find_entry(std::string_view path) {
  constexpr size_t kLongest = 256;  // no known name is so long
  if (path.size() > kLongest) return nullptr;
  if (const ForeignKey* found = entry(path)) return found;
  for (size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1))
    if (const ForeignKey* found = entry(path.substr(dot + 1))) return found;
  for (size_t dot = path.rfind('.'); dot != path.npos && dot > 0; dot = path.rfind('.', dot - 1))
    if (const ForeignKey* found = entry(path.substr(0, dot))) return found;
  return nullptr;
}

class ForeignKeySearch {
 public:
  ForeignKeySearch(const std::string& source, std::span<const Field> fields)
      : source_(source), fields_(fields) {}

  void reject(const std::string& path, const Tree& member) const {
    if (is_field(path)) return reject_value(path, member);
    const Tree::Members* members = member.as_members();
    if (members != nullptr && !members->empty()) {
      // The members of an unknown group have more specific names than the group.
      for (const auto& [name, below] : *members) reject(path + '.' + name, below);
      return;
    }
    if (is_section(path) || !renamed_path(path).empty()) return;
    const std::string advice = foreign_key_advice(path);
    if (advice.empty()) return;
    throw Error("{}: unknown key '{}' {}", place(member.key_line, member.key_column), path, advice);
  }

 private:
  void reject_value(const std::string& path, const Tree& value) const {
    const std::string advice = foreign_value_advice(path, value);
    if (advice.empty()) return;
    const std::string* text = value.as_string();
    throw Error("{}: {}: found '{}'; {}", place(value.line, value.column), path,
                text ? *text : to_json(value), advice);
  }
  std::string place(int line, int column) const {
    return line == 0 ? source_ : fmt::format("{}:{}:{}", source_, line, column);
  }
  bool is_field(const std::string& path) const {
    return std::any_of(fields_.begin(), fields_.end(),
                       [&](const Field& f) { return f.path == path; });
  }
  bool is_section(const std::string& path) const {
    return std::any_of(fields_.begin(), fields_.end(),
                       [&](const Field& f) { return f.path.starts_with(path + '.'); });
  }

  const std::string& source_;
  std::span<const Field> fields_;
};

}  // namespace

std::span<const ForeignKey> foreign_keys() { return kKeys; }

std::string foreign_key_advice(std::string_view name) {
  const ForeignKey* found = find_entry(normalized(name));
  if (found == nullptr) return {};
  std::string advice(found->advice);
  std::erase(advice, '`');
  return fmt::format("({}): {}", found->program,
                     advice.empty() ? fmt::format("use {}", found->key) : advice);
}

void reject_foreign_keys(const Tree& tree, const std::string& source,
                         std::span<const Field> fields) {
  const ForeignKeySearch search(source, fields);
  if (tree.as_members() == nullptr) return;
  for (const auto& [name, member] : *tree.as_members()) search.reject(name, member);
}

void reject_foreign_key(const Override& override, std::span<const Field> fields) {
  const std::string source = "command line";
  // The value of a text key may begin with a brace: data.template={prompt}{response}.
  const bool is_known = std::any_of(fields.begin(), fields.end(),
                                    [&](const Field& f) { return f.path == override.path; });
  const bool is_group = !is_known && override.text.starts_with('{') && override.text.ends_with('}');
  const std::string text = fmt::format("{}: {}={}", source, override.path, override.text);
  const Tree value = is_group ? parse_yaml(override.text, text) : Tree(override.text);
  ForeignKeySearch(source, fields).reject(override.path, value);
}

}  // namespace tessera::config
