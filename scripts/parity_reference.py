"""Computes with PyTorch and transformers, in the form that our parity checks compare with.

Used by parity_golden.py (small files for the test suite) and parity.py (which runs PyTorch). The
float64 models are exact in the places where transformers falls back to float32: the angles of the
rotary embedding are computed in double.
"""
import contextlib
import copy
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
import transformers
from transformers import (GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig,
                          LlamaForCausalLM, MixtralConfig, MixtralForCausalLM, MT5Config,
                          MT5ForConditionalGeneration, Qwen2Config, Qwen2ForCausalLM, T5Config, T5ForConditionalGeneration)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as deepseek_v2
from transformers.optimization import Adafactor
from transformers.utils import logging

logging.disable_progress_bar()
IGNORED = -100  # a label without loss
AHEAD_WEIGHT = 0.3  # the factor of the mean loss of multi-token prediction


# Llama 2's smaller sizes; 2 groups of heads with Llama 3.1's scaled frequencies, some of which are
# slow, some fast and some between in a context as short as ours; one key for all heads, tied.
LLAMAS = {
    "llama": lambda heads, context: dict(num_key_value_heads=heads, rope_theta=10000.0),
    "llama-grouped": lambda heads, context: dict(
        num_key_value_heads=heads // 2, rope_theta=500000.0,
        rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": context // 2}),
    "llama-tied": lambda heads, context: dict(num_key_value_heads=1, tie_word_embeddings=True),
}


def layers_of(pattern):
    """One letter per layer: s slides over a window, f attends to all."""
    return ["sliding_attention" if letter == "s" else "full_attention" for letter in pattern]


@dataclasses.dataclass
class Sizes:
    layers: int
    heads: int
    head: int  # hidden / heads
    context: int


def deepseek_yarn(z, mscale, mscale_all_dim):
    return {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": z.context // 8,
            "mscale": mscale, "mscale_all_dim": mscale_all_dim}


# Families built like LLaMA: the name of transformers' classes, and the keys that a config has
# in addition to the sizes. Sizes are such that each feature changes the result: windows shorter
# than the text, a first context that it exceeds, caps that bend scores.
DECODERS = {
    "mistral": ("Mistral", lambda z: dict(
        num_key_value_heads=z.heads // 2, head_dim=24, sliding_window=z.context // 4)),
    "mistral-yarn": ("Mistral", lambda z: dict(
        num_key_value_heads=z.heads, sliding_window=None, rope_theta=10000.0,
        rope_scaling={"rope_type": "yarn", "factor": 4.0,
                      "original_max_position_embeddings": z.context // 4})),
    "smollm3": ("SmolLM3", lambda z: dict(num_key_value_heads=z.heads // 2)),
    "smollm3-window": ("SmolLM3", lambda z: dict(
        num_key_value_heads=1, no_rope_layers=[1, 0, 0, 1][:z.layers], use_sliding_window=True,
        sliding_window=z.context // 4, rope_scaling={"rope_type": "linear", "factor": 4.0})),
    "phi3": ("Phi3", lambda z: dict(
        num_key_value_heads=z.heads // 2, partial_rotary_factor=0.5, sliding_window=z.context // 4)),
    "phi3-longrope": ("Phi3", lambda z: dict(
        num_key_value_heads=z.heads, original_max_position_embeddings=z.context // 2,
        rope_scaling={"rope_type": "longrope", "short_factor": [1.0] * (z.head // 2),
                      "long_factor": [1.0 + 0.5 * i for i in range(z.head // 2)]})),
    "qwen3": ("Qwen3", lambda z: dict(
        num_key_value_heads=z.heads // 2, head_dim=32, use_sliding_window=True,
        sliding_window=z.context // 4, max_window_layers=z.layers // 2)),
    "qwen3-moe": ("Qwen3Moe", lambda z: dict(
        num_key_value_heads=z.heads // 2, head_dim=32, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=96, mlp_only_layers=[0], experts_implementation="eager")),
    # Lite: no query rank, all experts compared; the 236B model: groups, a factor, YaRN.
    "deepseek-v2": ("DeepseekV2", lambda z: dict(
        q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        first_k_dense_replace=1, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2,
        moe_intermediate_size=96, experts_implementation="eager")),
    "deepseek-v2-groups": ("DeepseekV2", lambda z: dict(
        q_lora_rank=48, kv_lora_rank=32, qk_nope_head_dim=8, qk_rope_head_dim=16, v_head_dim=24,
        first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=3, n_shared_experts=1,
        moe_intermediate_size=96, topk_method="group_limited_greedy", n_group=3, topk_group=2,
        routed_scaling_factor=4.0, rope_scaling=deepseek_yarn(z, 0.707, 0.707),
        experts_implementation="eager")),
    "deepseek-v3": ("DeepseekV3", lambda z: dict(
        num_key_value_heads=z.heads, q_lora_rank=48, kv_lora_rank=32, qk_nope_head_dim=24,
        qk_rope_head_dim=8, v_head_dim=16, first_k_dense_replace=1, n_routed_experts=8,
        num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=96, n_group=4,
        topk_group=2, routed_scaling_factor=2.5, rope_scaling=deepseek_yarn(z, 1.0, 0.5),
        experts_implementation="eager")),
    "gpt-oss": ("GptOss", lambda z: dict(
        num_key_value_heads=z.heads // 2, head_dim=24, num_local_experts=6, num_experts_per_tok=2,
        sliding_window=z.context // 4, experts_implementation="eager",
        rope_parameters={"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "truncate": False, "rope_theta": 10000.0,
                         "original_max_position_embeddings": z.context // 4})),
    "olmo2": ("Olmo2", lambda z: dict(num_key_value_heads=z.heads // 2)),
    "gemma2": ("Gemma2", lambda z: dict(
        num_key_value_heads=z.heads // 2, head_dim=24, query_pre_attn_scalar=20,
        sliding_window=z.context // 4, attn_logit_softcapping=0.5, final_logit_softcapping=2.0)),
    "gemma3": ("Gemma3Text", lambda z: dict(
        num_key_value_heads=z.heads // 2, head_dim=24, query_pre_attn_scalar=20,
        sliding_window=z.context // 4, layer_types=layers_of("sfsf"[:z.layers]),
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
                         "full_attention": {"rope_type": "linear", "factor": 4.0,
                                            "rope_theta": 20000.0}})),
}


class Pairs:
    """A batch of an encoder and a decoder: the input [B, S] of the one (0 is padding) and the
    labels [B, T] (or IGNORED) of the other."""

    def __init__(self, source, labels):
        self.source, self.labels = source.long(), labels.long()

    def __len__(self):
        return len(self.source)

    def split(self, rows):
        return [Pairs(s, t) for s, t in zip(self.source.split(rows), self.labels.split(rows))]

    def count(self):
        return int((self.labels != IGNORED).sum())


T5S = ("t5", "t5-tied", "mt5", "mt5-tied")  # a tied head of MT5 is not scaled


def make_t5(family, layers, hidden, heads, vocabulary):
    """Heads wider than hidden / heads, and a decoder with one layer more than the encoder."""
    config, kind = ((MT5Config, MT5ForConditionalGeneration) if family.startswith("mt5")
                    else (T5Config, T5ForConditionalGeneration))
    tied = family.endswith("-tied")
    model = kind(config(
        vocab_size=vocabulary, d_model=hidden, d_kv=16, d_ff=3 * hidden, num_layers=layers,
        num_decoder_layers=layers + 1, num_heads=heads, dropout_rate=0.0,
        feed_forward_proj="gated-gelu", tie_word_embeddings=tied, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, attn_implementation="sdpa"))
    if not tied:  # transformers 5 ties in spite of the configuration
        model.lm_head.weight = torch.nn.Parameter(torch.randn(vocabulary, hidden) * hidden ** -0.5)
        model.config.tie_word_embeddings = False
    return model


def make_model(family, layers, hidden, heads, vocabulary, context, seed, spread=None):
    """A float32 model. `spread`: standard deviation of every tensor (norm gains around 1), so that
    no gradient is small by accident; None: the family's own initialization."""
    torch.manual_seed(seed)
    if family == "neox":
        model = GPTNeoXForCausalLM(GPTNeoXConfig(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
            num_attention_heads=heads, intermediate_size=4 * hidden, rotary_pct=0.25,
            max_position_embeddings=context, use_parallel_residual=True, hidden_act="gelu",
            tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
            attn_implementation="sdpa"))
    elif family == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(
            vocab_size=vocabulary, n_embd=hidden, n_layer=layers, n_head=heads,
            n_positions=context, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            activation_function="gelu_new", bos_token_id=0, eos_token_id=0,
            attn_implementation="sdpa"))
    elif family.startswith("llama"):
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
            num_attention_heads=heads, intermediate_size=8 * hidden // 3 // 8 * 8,
            max_position_embeddings=context, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=0,
            attn_implementation="sdpa", **LLAMAS[family](heads, context)))
    elif family == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=heads // 2,
            intermediate_size=8 * hidden // 3 // 8 * 8, max_position_embeddings=context,
            rms_norm_eps=1e-5, attn_implementation="sdpa"))
    elif family == "mixtral":
        model = MixtralForCausalLM(MixtralConfig(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=heads // 2,
            intermediate_size=8 * hidden // 3 // 8 * 8, num_local_experts=4, num_experts_per_tok=2,
            max_position_embeddings=context, rms_norm_eps=1e-5, sliding_window=None,
            attn_implementation="sdpa", experts_implementation="eager"))
    elif family in DECODERS:
        name, more = DECODERS[family]
        config = getattr(transformers, name + "Config")
        kind = getattr(transformers, name.removesuffix("Text") + "ForCausalLM")
        model = kind(config(
            vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
            num_attention_heads=heads, intermediate_size=8 * hidden // 3 // 8 * 8,
            max_position_embeddings=context, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=0,
            pad_token_id=None, **more(Sizes(layers, heads, hidden // heads, context))))
        for name, bias in model.named_buffers():
            if name.endswith("e_score_correction_bias"):  # not trained; zero would change no choice
                bias.copy_(0.05 * torch.randn_like(bias))
    elif family in T5S:
        model = make_t5(family, layers, hidden, heads, vocabulary)
    else:
        raise SystemExit(f"unknown family {family}: neox, gpt2, qwen2, mixtral, "
                         f"{', '.join((*T5S, *LLAMAS, *DECODERS))}")
    if spread is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.randn_like(parameter) * spread
                is_gain = parameter.dim() == 1 and bool((parameter == 1).all())
                parameter.copy_(noise + 1 if is_gain else noise)
    return model


def _scaled(frequencies, rope):
    """Llama 3.1's scale, as its paper describes it: by the turns within the first context."""
    if rope["rope_type"] != "llama3":
        return frequencies
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    share = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (share + (1 - share) / rope["factor"])


def _rotary_in_double(self, x, position_ids):
    rotated = 2 * self.inv_freq.numel()
    index = torch.arange(0, rotated, 2, dtype=torch.float64)
    base = float(self.config.rope_parameters["rope_theta"])
    frequencies = _scaled(base ** (-index / rotated), self.config.rope_parameters)
    angles = position_ids[..., None].double() * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def _kept_rotary_in_double(self, x, position_ids, layer_type=None):
    """With the frequencies as they are, which transformers computes in float32."""
    prefix = "" if layer_type is None else layer_type + "_"
    frequencies = getattr(self, prefix + "inv_freq")
    scale = getattr(self, prefix + "attention_scaling")
    if self.rope_type == "longrope":  # frequencies by the length of the text
        frequencies, scale = ROPE_INIT_FUNCTIONS["longrope"](
            self.config, seq_len=int(position_ids.max()) + 1)
    angles = position_ids[..., None].double() * frequencies.double()
    if not type(self).__name__.startswith("GptOss"):  # which keeps one half of the angles
        angles = torch.cat((angles, angles), dim=-1)
    return (angles.cos() * scale).to(x.dtype), (angles.sin() * scale).to(x.dtype)


def _rms_norm_around_one_in_double(self, x):
    return (1 + self.weight) * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))


_softmax = F.softmax


def _softmax_in_its_type(x, dim=None, _stacklevel=3, dtype=None):
    """Softmax in float64 where scores are; transformers asks for float32 of all."""
    return _softmax(x, dim=dim, dtype=None if x.dtype == torch.float64 else dtype)


F.softmax = _softmax_in_its_type


def _rms_norm_in_double(self, x):
    return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon))


def _route_in_double(self, hidden):
    logits = F.linear(hidden.reshape(-1, self.hidden_dim), self.weight)
    value, index = logits.softmax(-1).topk(self.top_k, dim=-1)
    if getattr(self, "norm_topk_prob", True):  # Mixtral's always are
        value = value / value.sum(-1, keepdim=True)
    return logits, value, index


def _route_deepseek_in_double(self, hidden):
    logits = F.linear(hidden.reshape(-1, self.hidden_dim), self.weight)
    bias = getattr(self, "e_score_correction_bias", None)  # V3 has it
    scores = logits.softmax(-1) if bias is None else logits.sigmoid()
    value = scores if bias is None else scores + bias
    if bias is not None or self.topk_method == "group_limited_greedy":
        groups = value.view(len(value), self.num_group, -1)
        best = groups.max(-1).values if bias is None else groups.topk(2, dim=-1).values.sum(-1)
        chosen = torch.zeros_like(best).scatter(1, best.topk(self.topk_group, dim=-1).indices, 1)
        value = groups.masked_fill(chosen[..., None] == 0, -math.inf).view_as(value)
    index = value.topk(self.top_k, dim=-1).indices
    weights = scores.gather(1, index)
    if bias is not None and self.norm_topk_prob:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return logits, weights * self.routed_scaling_factor, index


def _complex_rotary_in_double(self, x, position_ids):
    angles = position_ids[..., None].double() * self.inv_freq.double()
    return torch.polar(torch.full_like(angles, self.attention_scaling), angles)


_turn = deepseek_v2.apply_rotary_emb


def _turn_in_its_type(q, k, angles):
    """DeepSeek-V2's rotation in float64 where queries are; transformers computes it in float32."""
    if q.dtype != torch.float64:
        return _turn(q, k, angles)
    angles = angles.unsqueeze(1)
    return tuple(torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * angles)
                 .flatten(3) for x in (q, k))


deepseek_v2.apply_rotary_emb = _turn_in_its_type


def double_copy(model):
    """The same weights, computed in float64 throughout."""
    twin = copy.deepcopy(model).double()
    for module in twin.modules():
        if type(module).__name__ in ("GPTNeoXRotaryEmbedding", "LlamaRotaryEmbedding",
                                       "Qwen2RotaryEmbedding", "MixtralRotaryEmbedding"):
            module.forward = _rotary_in_double.__get__(module)
        name = type(module).__name__
        if name.removesuffix("RotaryEmbedding") in ("Mistral", "SmolLM3", "Phi3", "Qwen3",
                                                    "Qwen3Moe", "DeepseekV3", "GptOss", "Olmo2",
                                                    "Gemma2", "Gemma3"):
            module.forward = _kept_rotary_in_double.__get__(module)
        if name.startswith("Gemma") and name.endswith("RMSNorm"):
            module.forward = _rms_norm_around_one_in_double.__get__(module)
        elif name.endswith("RMSNorm") or name in ("T5LayerNorm", "MT5LayerNorm"):
            module.forward = _rms_norm_in_double.__get__(module)
        if name in ("MixtralTopKRouter", "Qwen3MoeTopKRouter"):
            module.forward = _route_in_double.__get__(module)
        if name in ("DeepseekV2TopkRouter", "DeepseekV3TopkRouter"):
            module.forward = _route_deepseek_in_double.__get__(module)
        if name == "DeepseekV2RotaryEmbedding":
            module.forward = _complex_rotary_in_double.__get__(module)
    return twin


def add_ahead(model, depth, spread):
    """Gives the model modules of multi-token prediction, which transformers can load but not train: it
    has the layers (MtpLayer), not the loss. See ahead_losses()."""
    from transformers.modeling_layers import MtpLayer  # not in older versions

    last = model.model.layers[-1]
    norm = type(last.input_layernorm)
    model.ahead = torch.nn.ModuleList(
        MtpLayer(model.config, type(last), norm, len(model.model.layers) - 1) for _ in range(depth))
    with torch.no_grad():
        for parameter in model.ahead.parameters():
            noise = torch.randn_like(parameter) * spread
            parameter.copy_(noise + 1 if parameter.dim() == 1 else noise)
        for name, bias in model.ahead.named_buffers():
            if name.endswith("e_score_correction_bias"):
                bias.copy_(0.05 * torch.randn_like(bias))


def saved_name(model, name):
    """The name of a tensor in files. Transformers 5 calls NeoX's head lm_head in memory and embed_out in
    files, and modules of multi-token prediction follow the layers there."""
    if isinstance(model, GPTNeoXForCausalLM) and name == "lm_head.weight":
        return "embed_out.weight"
    if not name.startswith("ahead."):
        return name
    _, depth, own = name.split(".", 2)
    own = own.replace("post_norm.", "shared_head.norm.").removeprefix("mtp_block.")
    return f"model.layers.{len(model.model.layers) + int(depth)}.{own}"


def named_parameters(model):
    """Under the names of a saved checkpoint; tied tensors once."""
    return {saved_name(model, n): p for n, p in model.named_parameters()}


def as_saved(tensors):
    """Tensors of a model's parameters under the names of a saved checkpoint, which has one matrix per
    expert: in memory those of all experts are one, and gates are followed by values. Mixtral's MLPs,
    and only its, are all experts, and have names of their own."""
    if any(n.endswith("self_attn.sinks") for n in tensors):  # gpt-oss is saved as it is in memory
        return dict(tensors)
    mixtral = not any("norm.weight" in n and "self_attn" in n for n in tensors)
    module, gate, value, down = (("block_sparse_moe", "w1", "w3", "w2") if mixtral
                                 else ("mlp", "gate_proj", "up_proj", "down_proj"))
    saved = {}
    for name, t in tensors.items():
        layer, experts, matrix = name.partition("mlp.experts.")
        if not experts:
            saved[name.replace("mlp.gate.", module + ".gate.")] = t
            continue
        for j, own in enumerate(t):
            parts = {gate: own[:len(own) // 2], value: own[len(own) // 2:]} \
                if matrix == "gate_up_proj" else {down: own}
            for part, values in parts.items():
                saved[f"{layer}{module}.experts.{j}.{part}.weight"] = values
    return saved


class WidenedProducts(TorchDispatchMode):
    """PyTorch's bf16 GEMMs as it defines them, summed in float32 and rounded once, but
    by its float32 kernels: on a CPU without bf16 instructions its own are a hundred times slower."""

    KINDS = ("aten.mm.default", "aten.addmm.default", "aten.bmm.default", "aten.baddbmm.default")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if str(function) not in self.KINDS or args[0].dtype != torch.bfloat16:
            return function(*args, **kwargs)
        return function(*(a.float() for a in args), **kwargs).bfloat16()


class ComparedProducts(WidenedProducts):
    """Both ways at once: the number of results that differ, and the GEMM with the largest difference, norm-wise."""

    def __init__(self):
        super().__init__()
        self.results, self.differ, self.worst = 0, 0, 0.0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = super().__torch_dispatch__(function, types, args, kwargs)
        if str(function) in self.KINDS and args[0].dtype == torch.bfloat16:
            theirs = function(*args, **(kwargs or {}))
            self.results += out.numel()
            self.differ += int((theirs != out).sum())
            self.worst = max(self.worst, relative(out, theirs))
        return out


def autocast_products():
    """WidenedProducts where PyTorch has no fast ones."""
    fast = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return contextlib.nullcontext() if fast else WidenedProducts()


def logits_of(model, tokens, autocast=False):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        if isinstance(tokens, Pairs):
            read = tokens.labels.roll(1, 1).masked_fill(tokens.labels.roll(1, 1) == IGNORED, 0)
            read[:, 0] = 0
            return model(input_ids=tokens.source, attention_mask=(tokens.source != 0).long(),
                         decoder_input_ids=read, use_cache=False).logits
        return model(input_ids=tokens.long(), use_cache=False).logits


def inputs_of(batch):
    return batch if isinstance(batch, Pairs) else batch[:, :-1]


def loss_share(part, batch):
    """Share of the loss tokens of a batch that a part of it has."""
    if isinstance(batch, Pairs):
        return part.count() / batch.count()
    return len(part) / len(batch)


def loss_of(model, batch, autocast=False):
    """`batch` [B, T+1]: the mean over the B·T predictions, natural logarithm."""
    logits = logits_of(model, inputs_of(batch), autocast)
    labels = batch.labels if isinstance(batch, Pairs) else batch[:, 1:]
    exact = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(exact.reshape(-1, exact.size(-1)), labels.reshape(-1).long(),
                           ignore_index=IGNORED)


def ahead_losses(model, batch):
    """The sums of the losses of all depths of multi-token prediction, and the number of their tokens.
    Depth d reads, at position i of a row, the output of the depth before it (the model's, after its last
    norm) and the embedding of token i + d, and predicts token i + d + 1; the last d have none."""
    rows, length = batch.shape[0], batch.shape[1] - 1
    base = model.model
    h = base(input_ids=batch[:, :-1].long(), use_cache=False).last_hidden_state
    positions = torch.arange(length)[None]
    turns = base.rotary_emb(h, positions)
    total, tokens = 0.0, 0
    for d, layer in enumerate(model.ahead, 1):
        ids = torch.zeros(rows, length, dtype=torch.long)
        ids[:, :length - d] = batch[:, d:length]
        h = layer(base.embed_tokens(ids), h, turns, None, positions, None)
        logits = model.lm_head(h[:, :length - d])
        total = total + F.cross_entropy(logits.reshape(-1, logits.size(-1)),
                                        batch[:, d + 1:].reshape(-1).long(), reduction="sum")
        tokens += rows * (length - d)
    return total, tokens


def trained_loss_of(model, batch, autocast=False):
    """loss_of(), and what is trained: with modules of multi-token prediction, their weighted mean too,
    per token of the first loss."""
    loss = loss_of(model, batch, autocast)
    if not hasattr(model, "ahead"):
        return loss, loss
    total, _ = ahead_losses(model, batch)
    return loss, loss + AHEAD_WEIGHT / len(model.ahead) * total / batch[:, 1:].numel()


def gradients_of(model, batch, autocast=False):
    model.zero_grad(set_to_none=True)
    trained_loss_of(model, batch, autocast)[1].backward()
    return as_saved({n: p.grad.detach().clone() for n, p in named_parameters(model).items()})


def norm_of(tensors):
    """The 2-norm of all of them together, summed in float64."""
    return math.sqrt(sum(float(t.double().square().sum()) for t in tensors))


def adamw(model, learning_rate, beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1):
    """No decay on norms and biases. Those of experts have two dimensions, so names decide, as in
    transformers' Trainer."""
    matrices = {n: p.dim() > 1 and not n.endswith("bias") for n, p in model.named_parameters()}
    parameters = dict(model.named_parameters())
    groups = [{"params": [parameters[n] for n, decays in matrices.items() if decays == which],
               "weight_decay": weight_decay if which else 0.0} for which in (True, False)]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(beta1, beta2), eps=epsilon)


def adafactor(model, learning_rate):
    """As ours by default: a step is the rate times the weight's own size, without moments or decay."""
    return Adafactor(list(model.parameters()), lr=learning_rate, relative_step=False,
                     scale_parameter=True, warmup_init=False)


def train(model, batches, learning_rate, clip_norm=1.0, autocast=False, rows=None, optimizer=adamw,
          **how):
    """One step a batch: the losses, and the norms before clipping. `rows`: sequences that are
    computed at once; the gradient is that of the mean over the whole batch all the same."""
    if autocast:
        with autocast_products():
            return _train(model, batches, learning_rate, clip_norm, autocast, rows, optimizer, how)
    return _train(model, batches, learning_rate, clip_norm, autocast, rows, optimizer, how)


def _train(model, batches, learning_rate, clip_norm, autocast, rows, optimizer, how):
    update = optimizer(model, learning_rate, **how)
    losses, norms = [], []
    for batch in batches:
        update.zero_grad(set_to_none=True)
        loss = 0.0
        for part in batch.split(rows or len(batch)):
            share = loss_share(part, batch)
            own, trained = trained_loss_of(model, part, autocast)
            (trained * share).backward()
            loss += float(own.detach()) * share
        norm = norm_of(p.grad for p in model.parameters())
        clip = min(1.0, clip_norm / (norm + 1e-6)) if clip_norm > 0 else 1.0
        for p in model.parameters():
            p.grad.mul_(clip)
        update.step()
        losses.append(loss)
        norms.append(norm)
    return losses, norms


def relative(a, b):
    """|a − b| / |b|, norm-wise, in float64."""
    a, b = a.double(), b.double()
    size = float(b.norm())
    return float((a - b).norm()) / size if size > 0 else float(a.norm())


def worst(pairs):
    """The largest of (name, value), as (value, name)."""
    return max(((v, n) for n, v in pairs), default=(0.0, "nothing"))
