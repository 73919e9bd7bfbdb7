// The table of foreign names of fine-tuning: axolotl's and LLaMA-Factory's YAML, TRL's
// configurations, and those of
// Hugging Face's TrainingArguments that are about data, validation and saving. The general table
// is foreign_key_table.cc.
#include "config/foreign_keys.h"

namespace tessera::config {
namespace {

constexpr std::string_view kHf = "Hugging Face Trainer", kPeft = "Hugging Face PEFT",
                           kAxolotl = "axolotl", kHfAndAxolotl = "Hugging Face Trainer, axolotl";
constexpr std::string_view kTrl = "TRL", kFactory = "LLaMA-Factory";
constexpr std::string_view kPacked =
    "samples are always packed; `data.intra_document_masking` separates their attention";
constexpr std::string_view kRows =
    "remove it: each row has `data.sequence_length` tokens and is filled with several examples";
constexpr std::string_view kAnswers =
    "only answers have a loss by default (`data.learn: answers`); everything changes that";
constexpr std::string_view kTurnEnds =
    "the token that `data.chat_template` writes after a learned answer is learned too";
constexpr std::string_view kHeldOut =
    "write the held-out lines to a file of their own and list it in `data.validation`";
constexpr std::string_view kReadAhead = "remove it: a thread of the run reads the data ahead";
constexpr std::string_view kTokens =
    "remove it: special tokens are those of the file of `data.tokenizer`";
constexpr std::string_view kSaved =
    "with `lora.rank` only adapters are trained; train these modules with all weights instead";
constexpr std::string_view kReference =
    "the log-probabilities of `objective.reference` are always computed before the first step";
constexpr std::string_view kBothTexts =
    "use `data.sequence_length`, the length of both texts of a pair, with their prompts, together";
constexpr std::string_view kValidate = "use `metrics.validate_every_steps`; 0: only at the end";
constexpr std::string_view kBest =
    "set `checkpoint.keep` and choose by the validation losses of metrics.jsonl";
constexpr std::string_view kHub =
    "remove it: `tessera checkpoint export` writes a folder that can be uploaded";
constexpr std::string_view kKernels = "remove it: fused kernels are used without it";

constexpr ForeignKey kKeys[] = {
    // ---- Fine-tuning with axolotl, TRL and the Trainer
    {"packing", kTrl, "data.intra_document_masking", kPacked},
    {"eval_packing", kTrl, "data.intra_document_masking", kPacked},
    {"eval_sample_packing", kAxolotl, "data.intra_document_masking", kPacked},
    {"multipack_real_batches", kAxolotl, "data.intra_document_masking", kPacked},
    {"packing_strategy", kTrl, "data.intra_document_masking", kPacked},
    {"padding_free", kTrl, "data.intra_document_masking", kPacked},
    {"pad_to_sequence_len", kAxolotl, "data.sequence_length", kRows},
    {"pad_to_multiple_of", kTrl, "data.sequence_length", kRows},
    {"cutoff_len", kFactory, "data.sequence_length"},
    {"group_by_length", kHfAndAxolotl, "data.sequence_length", kRows},
    {"assistant_only_loss", kTrl, "data.learn", kAnswers},
    {"completion_only_loss", kTrl, "data.learn", kAnswers},
    {"train_on_eos", kAxolotl, "data.learn", kTurnEnds},
    {"train_on_eot", kAxolotl, "data.learn", kTurnEnds},
    {"eot_tokens", kAxolotl, "data.chat_template", kTurnEnds},
    {"chat_template_path", kTrl, "data.chat_template"},
    {"chat_template_kwargs", "TRL, axolotl", "data.template_values"},
    {"message_field_role", kAxolotl, "data.keys", "use `data.keys: {role: NAME}`"},
    {"message_field_content", kAxolotl, "data.keys", "use `data.keys: {content: NAME}`"},
    {"dataset_text_field", kTrl, "data.keys", "use `data.keys: {text: NAME}`"},
    {"val_set_size", kAxolotl, "data.validation", kHeldOut},
    {"test_size", kHf, "data.validation", kHeldOut},
    {"eval_dataset", kHf, "data.validation"},
    {"dataset_name", kTrl, "data.instructions",
     "use `data.instructions`, which lists files; download the dataset first"},
    {"train_dataset", kHf, "data.instructions"},
    {"pretraining_dataset", kAxolotl, "data.train",
     "use `data.train`, datasets of `tessera data build`"},
    {"dataset_prepared_path", kAxolotl, "",
     "remove it: rows are packed at the start of each run and need no folder"},
    {"dataset_num_proc", kTrl, "run.threads", "remove it: the number of threads is `run.threads`"},
    {"dataset_processes", kAxolotl, "run.threads",
     "remove it: the number of threads is `run.threads`"},
    {"dataloader_num_workers", kHfAndAxolotl, "", kReadAhead},
    {"dataloader_prefetch_factor", kHfAndAxolotl, "", kReadAhead},
    {"dataloader_pin_memory", kHfAndAxolotl, "", kReadAhead},
    {"remove_unused_columns", kHfAndAxolotl, "",
     "remove it: a line may have other keys than those that are read"},
    {"special_tokens", kAxolotl, "data.tokenizer", kTokens},
    {"tokens", kAxolotl, "data.tokenizer", kTokens, true},
    {"added_tokens_overrides", kAxolotl, "data.tokenizer", kTokens},
    {"eos_token", kTrl, "data.tokenizer", kTokens},
    {"pad_token", kTrl, "data.tokenizer", kTokens},
    {"tokenizer_type", kAxolotl, "data.tokenizer",
     "remove it: the kind is read from the file of `data.tokenizer`"},
    {"tokenizer_config", kAxolotl, "data.tokenizer"},
    {"trust_remote_code", kHfAndAxolotl, "", "remove it: no code of a model folder is run"},
    {"torch_dtype", "Hugging Face config.json, axolotl", "precision",
     "use `precision`; weights of any dtype are read"},
    {"dtype", "Hugging Face config.json, TRL", "precision",
     "use `precision`; weights of any dtype are read", true},
    {"finetuning_type", kFactory, "lora.rank", "use `lora.rank`: above 0 for lora, 0 for full"},
    {"use_peft", kTrl, "lora.rank", "use `lora.rank`; above 0, LoRA adapters are trained"},
    {"lora_target_linear", kAxolotl, "lora.targets",
     "use `lora.targets: [all-linear]`, which is also the default"},
    {"lora_modules_to_save", kAxolotl, "lora.targets", kSaved},
    {"modules_to_save", kPeft, "lora.targets", kSaved},
    {"lora_fan_in_fan_out", kAxolotl, "",
     "remove it: the layout of the weights follows from the family"},
    {"loraplus_lr_ratio", kAxolotl, "optimizer.groups",
     "use `optimizer.groups` with a learning_rate_multiplier for *.lora_b"},
    {"dpo_beta", "axolotl, TRL", "objective.beta"},
    {"orpo_alpha", kAxolotl, "objective.beta"},
    {"simpo_gamma", kTrl, "objective.gamma",
     "use `objective.gamma`, which is not multiplied by `objective.beta`"},
    {"kto_desirable_weight", kAxolotl, "objective.desirable_weight"},
    {"kto_undesirable_weight", kAxolotl, "objective.undesirable_weight"},
    {"desirable_weight", kTrl, "objective.desirable_weight"},
    {"undesirable_weight", kTrl, "objective.undesirable_weight"},
    {"dpo_label_smoothing", kAxolotl, "objective.label_smoothing"},
    {"loss_type", kTrl, "objective.kind",
     "use `objective.kind`: dpo for sigmoid, ipo for ipo, simpo for simpo"},
    {"reference_free", kTrl, "objective.kind",
     "use `objective.kind`: simpo and orpo need no reference model"},
    {"precompute_ref_log_probs", kTrl, "objective.reference", kReference},
    {"precompute_ref_batch_size", kTrl, "objective.reference", kReference},
    {"ref_model", kTrl, "checkpoint.from",
     "the reference model is the one of `checkpoint.from`, which the run starts from"},
    {"sync_ref_model", kTrl, "objective.reference",
     "remove it: the reference model of `objective.reference` does not change"},
    {"max_prompt_length", kTrl, "data.sequence_length", kBothTexts},
    {"max_completion_length", kTrl, "data.sequence_length", kBothTexts},
    {"truncation_mode", kTrl, "data.long_examples",
     "use `data.long_examples: truncate`, which cuts the ends of the answers"},
    {"eval_strategy", kHfAndAxolotl, "metrics.validate_every_steps", kValidate},
    {"evaluation_strategy", kHfAndAxolotl, "metrics.validate_every_steps", kValidate},
    {"do_eval", kHf, "metrics.validate_every_steps", kValidate},
    {"evals_per_epoch", kAxolotl, "metrics.validate_every_steps",
     "use `metrics.validate_every_steps` = steps per epoch / evals_per_epoch"},
    {"save_strategy", kHfAndAxolotl, "checkpoint.every_steps",
     "use `checkpoint.every_steps`; 0: only at the end"},
    {"saves_per_epoch", kAxolotl, "checkpoint.every_steps",
     "use `checkpoint.every_steps` = steps per epoch / saves_per_epoch"},
    {"save_safetensors", kHfAndAxolotl, "",
     "remove it: `tessera checkpoint export` writes safetensors"},
    {"load_best_model_at_end", kHfAndAxolotl, "checkpoint.keep", kBest},
    {"metric_for_best_model", kHfAndAxolotl, "checkpoint.keep", kBest},
    {"greater_is_better", kHfAndAxolotl, "checkpoint.keep", kBest},
    {"early_stopping_patience", kHfAndAxolotl, "schedule.stop.patience"},
    {"logging_dir", kHf, "run.directory", "remove it: logs are in `run.directory`"},
    {"logging_strategy", kHf, "metrics.every_steps"},
    {"hub_model_id", kHfAndAxolotl, "", kHub},
    {"push_to_hub", kHf, "", kHub},
    {"hub_strategy", kHfAndAxolotl, "", kHub},
    {"neftune_noise_alpha", kHfAndAxolotl, "",
     "noise on embeddings (NEFTune) is not supported; remove it"},
    {"use_liger_kernel", kHfAndAxolotl, "", kKernels},
    {"torch_compile", kHfAndAxolotl, "", kKernels},
    {"plugins", kAxolotl, "", kKernels, true},
    {"strict", kAxolotl, "", "remove it: unknown keys are always errors", true},
    {"overwrite_output_dir", kHf, "checkpoint.resume",
     "use `checkpoint.resume: never`, which sets earlier checkpoints aside"},
    {"data_seed", kHf, "run.seed", "remove it: `run.seed` determines the data order, too"},
    {"use_cpu", kHf, "run.device", "use `run.device: cpu`"},
    {"do_train", kHf, "", "remove it: `tessera train RUN.yaml` trains, `tessera eval` evaluates",
     true},
    {"gradient_checkpointing_kwargs", kHfAndAxolotl, "layout.recompute"},
};

}  // namespace

std::span<const ForeignKey> foreign_tuning_keys() { return kKeys; }

}  // namespace tessera::config
