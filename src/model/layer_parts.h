// Parts of blocks that are several ops and weights, which families share. They are written with the
// methods of BlockWriter. B sequences of T tokens.
#pragma once

#include <string>

#include "model/forward.h"

namespace tessera::model {

// Queries and keys are normalized over each head, or over all heads of a token together.
enum class HeadNormForm : uint8_t { kAbsent, kPerHead, kWhole };

// Variants of a router and experts; the default is the variant of Mixtral. Biases: of the router's
// logits and of both matrices of an expert.
struct ExpertsForm {
  GateForm gate = GateForm::kSilu;
  bool biases = false;
};

// Writes packed queries, keys and values [B, T, K, G+2, D] of x [B, T, F]: a group of G queries,
// their key and their value for each of the K key/value heads, from name.weight [K, G+2, D, F] (and
// name.bias). With r copies of these heads [B, T, K·r, G/r+2, D]: tensor ranks divide the rows,
// and all ranks of a head have its keys' and values' weight, which are parts of that weight.
// `separate`: published models store queries, keys and values in separate tensors.
ValueId grouped_heads(BlockWriter& w, const std::string& name, ValueId x, bool bias,
                      bool separate = true);
// The same of latent attention, [B, T, H, 3, D]: values end in zeros (latent_attention.cc).
ValueId latent_heads(BlockWriter& w, const std::string& name, ValueId x);
// Writes an RMS norm of queries and keys in packed qkv: name.q_norm.gain, name.k_norm.gain.
ValueId head_norm(BlockWriter& w, const std::string& name, ValueId qkv, HeadNormForm form,
                  GainForm gains);
// Writes causal attention of the layer's kind (window) and the model's scale and soft cap.
// `sinks`: with a sink per head, attn.sinks [H].
ValueId self_attention(BlockWriter& w, ValueId qkv, bool sinks = false);

// Writes a router and experts of inner width M in place of the MLP: name.router.weight [E, F],
// name.experts.up.weight [E, M, 2, F] and name.experts.down.weight [E, F, M]; with biases
// name.router.logit_bias [E], name.experts.up.bias [E, M, 2] and name.experts.down.bias [E, F].
ValueId experts(BlockWriter& w, const std::string& name, ValueId x, int64_t inner,
                const ExpertsForm& form = {});

// Writes the loss of x [B, T, F] and the weights [V, F] of the LM head: of the next token, or at a
// depth of multi-token prediction.
void next_token_loss(BlockWriter& w, ValueId x, ValueId weight, int64_t depth = 0);

}  // namespace tessera::model
