#include "cli/sampling_options.h"

#include <charconv>

#include "cli/checkpoint_file.h"
#include "cli/rank.h"

namespace tessera::cli {
namespace {

// Parses the value of --logit-bias: "50256=-100".
std::pair<int32_t, double> bias_of(const std::string& text) {
  const size_t at = text.find('=');
  int32_t id = 0;
  double bias = 0;
  const char* const end = text.data() + text.size();
  if (at != text.npos) {
    const auto first = std::from_chars(text.data(), text.data() + at, id);
    const auto second = std::from_chars(text.data() + at + 1, end, bias);
    if (first.ec == std::errc() && first.ptr == text.data() + at && second.ec == std::errc() &&
        second.ptr == end)
      return {id, bias};
  }
  throw UsageError("--logit-bias is '{}', expected ID=NUMBER, such as 50256=-100.", text);
}

}  // namespace

SamplingArguments::SamplingArguments(Arguments& a) {
  kernels::Sampling& s = options_.choice;
  a.option(s.temperature, "--temperature", "X", "sampling temperature; 0: the most probable token");
  a.option(s.top_k, "--top-k", "K", "sample from the K most probable; 0: all");
  a.option(
      s.top_p, "--top-p", "P",
      "sample from the smallest set of most probable tokens whose probabilities sum to at least P");
  a.option(s.min_p, "--min-p", "P",
           "sample from the tokens with at least P times the largest probability; 0: all");
  a.option(options_.repetition_penalty, "--repetition-penalty", "R",
           "divide positive logits of tokens in the text by R, multiply negative ones; 1: none");
  a.option(options_.frequency_penalty, "--frequency-penalty", "F",
           "subtract F from a logit for each time that the output has the token");
  a.option(options_.presence_penalty, "--presence-penalty", "F",
           "subtract F from the logits of tokens that the output has");
  a.option(biases_, "--logit-bias", "ID=X", "add X to the logit of a token (repeatable)");
}

eval::SamplingOptions SamplingArguments::options() const {
  eval::SamplingOptions o = options_;
  for (const std::string& text : biases_) o.logit_bias.push_back(bias_of(text));
  eval::validate(o);
  return o;
}

DeviceArguments::DeviceArguments(Arguments& a) {
  a.option(threads_, "--threads", "N", "threads; 0: all cores");
  a.option(device_, "--device", "D", "device: auto, cpu or cuda");
  a.option(precision_, "--precision", "P", "compute precision: fp32 or bf16");
}

eval::ModelOptions DeviceArguments::options(const comm::World& world) const {
  eval::ModelOptions o;
  if (precision_ == "bf16")
    o.precision = compile::Precision::kBf16;
  else if (precision_ != "fp32")
    throw UsageError("--precision is '{}', expected fp32 or bf16.", precision_);
  o.threads = threads_or_all(threads_);
  o.gpu = gpu_named(device_, world);
  return o;
}

}  // namespace tessera::cli
