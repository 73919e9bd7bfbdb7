// What a run file may say: every rule in one place, each with the message that mends it.
#include <fmt/ranges.h>

#include <charconv>

#include "base/tree.h"
#include "compile/layout_check.h"
#include "compile/offload.h"
#include "data/span_corruption.h"
#include "model/check_model.h"
#include "model/family.h"
#include "train/run_config.h"
#include "train/run_programs.h"
#include "train/run_ranges.h"

namespace tessera {
namespace {

// Far beyond what anybody trains. A step is a list of calls that is held in memory: a slip of the
// keyboard is to be a message, not hours and all of it.
constexpr int64_t kMostCalls = int64_t{1} << 22;
constexpr int64_t kMostRampSizes = 64;
constexpr double kMostTokens = 1e18;  // that a run reads

class Validation {
 public:
  explicit Validation(const RunConfig& config, DataUse use = DataUse::kRead)
      : c_(config), use_(use) {}

  void all() const {
    run();
    model();
    check_ranges(c_);  // the rules below use these numbers
    data();
    batch();
    lora();
    loss_scale();
    schedule();
    layout();
    checkpoint();
    evaluation();
  }

  void names() const {
    if (c_.lora.rank == 0 && c_.optimizer.freeze.empty()) return;
    CompileRequest r = request();
    r.model.vocabulary = std::max<int64_t>(r.model.vocabulary, 1);  // 0: the tokenizer's
    at_its_key([&] { check_weight_names(r); });
  }

 private:
  // Fails at the key `path`; where it was not given itself, at the preset or at the file.
  template <class... A>
  [[noreturn]] void fail(const std::string& path, fmt::format_string<A...> format, A&&... a) const {
    auto at = c_.places.find(path);
    if (at == c_.places.end() && path.starts_with("model.")) at = c_.places.find("model.preset");
    throw Error("{}: {} {}", at == c_.places.end() ? c_.source : at->second, path,
                fmt::format(format, std::forward<A>(a)...));
  }
  // What `check` throws begins with a key, whose place is known here.
  void at_its_key(const auto& check) const {
    try {
      check();
    } catch (const Error& e) {
      const std::string said = e.what();
      const size_t key = said.find(' ');
      fail(said.substr(0, key), "{}", said.substr(key + 1));
    }
  }
  CompileRequest request() const {
    CompileRequest r = compile_request(c_, Purpose::kTrain);
    if (r.source > 0 && r.tokens == 0)
      r.tokens = fit_spans(r.source, {c_.data.noise_density, c_.data.mean_span}).targets;
    return r;
  }

  void run() const {
    const RunSection& r = c_.run;
    const bool is_name = !r.name.empty() && r.name != "." && r.name != ".." &&
                         std::none_of(r.name.begin(), r.name.end(), [](unsigned char c) {
                           return c == '/' || c < 0x20 || c == 0x7f;
                         });
    if (!is_name)
      fail("run.name",
           "= {}, expected a name without '/' and control characters, other than '.' and '..': "
           "without run.directory the run writes into runs/NAME",
           to_json(Tree(r.name)));
  }

  void model() const {
    const ModelConfig& m = c_.model;
    const auto given = [&](const char* path, int64_t value) {
      if (value == 0) fail(path, "is not given. Give it, or model.preset (such as pythia-70m).");
    };
    given("model.layers", m.layers);
    given("model.hidden", m.hidden);
    given("model.heads", m.heads);
    at_its_key([&] { check_model(m); });
  }

  void data() const {
    const DataSection& d = c_.data;
    if (use_ == DataUse::kRead && d.train.empty() && d.instructions.empty())
      fail("data.train", "is not given. Build a data set with `tessera data build` and name it.");
    stages(d);
    instructions(d);
    objective(d);
    if (d.sequence_length > c_.model.context)
      fail("data.sequence_length",
           "= {} is longer than model.context = {}. Raise the context or "
           "shorten the sequences.",
           d.sequence_length, c_.model.context);
    if (!d.split.empty()) split(d.split);
  }

  void stages(const DataSection& d) const {
    int64_t last = 0;
    for (const DataStage& stage : d.stages) {
      if (stage.from_tokens <= last)
        fail("data.stages",
             "has a stage from token {} behind {}, wanted ascending numbers above 0: data.train is "
             "the first",
             stage.from_tokens, last);
      if (stage.train.empty())
        fail("data.stages", "has a stage from token {} without `train`", stage.from_tokens);
      last = stage.from_tokens;
    }
  }

  void instructions(const DataSection& d) const {
    if (d.instructions.empty()) {
      if (!d.form.empty()) fail("data.template", "is given, but no data.instructions.");
      return;
    }
    if (!d.train.empty() || !d.stages.empty())
      fail("data.instructions", "stand beside data.train. Wanted one of them.");
    if (d.form.find("{response}") == d.form.npos)
      fail("data.template",
           "= '{}' has no {{response}}, so nothing would be learned. Wanted a text such as "
           "'Question: {{prompt}}\nAnswer: {{response}}'.",
           d.form);
  }

  void objective(const DataSection& d) const {
    const bool encodes = c_.model.encoder_layers > 0;
    if (d.documents_apart && encodes)
      fail("data.documents_apart", "= true, but family {} takes one text a row. Leave it out.",
           name_of_entry(c_.model.family));
    if (!encodes && d.target_length > 0)
      fail("data.target_length", "= {}, but family {} has no encoder beside its decoder.",
           d.target_length, name_of_entry(c_.model.family));
    if (d.objective == Objective::kNextToken) return pairs(d, encodes);
    if (!d.instructions.empty())
      fail("data.objective", "= span_corruption is for data.train, not for instructions.");
    if (d.documents_apart)
      fail("data.documents_apart", "is for next tokens, not for span_corruption.");
    if (!encodes)
      fail("data.objective",
           "= span_corruption needs an encoder, which family {} has not. Wanted next_token.",
           name_of_entry(c_.model.family));
    const int64_t targets = fit_spans(d.sequence_length, {d.noise_density, d.mean_span}).targets;
    if (d.target_length > 0 && d.target_length != targets)
      fail("data.target_length", "= {}, but span corruption makes targets of {}. Leave it out.",
           d.target_length, targets);
  }

  // What an encoder and a decoder are fine-tuned on.
  void pairs(const DataSection& d, bool encodes) const {
    if (!encodes) return;
    if (d.instructions.empty())
      fail("data.objective",
           "= next_token, but family {} has an encoder. Wanted span_corruption, or pairs as "
           "data.instructions.",
           name_of_entry(c_.model.family));
    if (d.target_length == 0)
      fail("data.target_length", "is not given. Wanted the longest response in tokens.");
    if (d.target_length > c_.model.context)
      fail("data.target_length", "= {} is longer than model.context = {}.", d.target_length,
           c_.model.context);
  }

  void split(const std::string& text) const {
    const auto wrong = [&]() {
      fail("data.split", "= '{}', wanted shares of train, validation and test such as 969,30,1",
           text);
    };
    constexpr double kLargest = 1e12;
    int parts = 0;
    double sum = 0;
    for (const char *p = text.data(), *end = p + text.size();; ++parts) {
      double x = -1;
      const auto [rest, status] = std::from_chars(p, end, x);
      if (status != std::errc() || !(x >= 0 && x <= kLargest) || parts == 3) wrong();
      sum += x;
      if (rest == end) break;
      if (*rest != ',') wrong();
      p = rest + 1;
    }
    if (!(sum > 0)) wrong();
  }

  void batch() const {
    const BatchSection& b = c_.batch;
    const int64_t ranks = c_.layout.data;
    if (b.global % ranks != 0)
      fail("batch.global", "= {} is no multiple of layout.data = {}", b.global, ranks);
    if (b.global / ranks % b.micro != 0)
      fail("batch.micro", "= {} does not divide batch.global = {}{}. Possible here: {}.", b.micro,
           b.global, ranks == 1 ? "" : fmt::format(" / layout.data = {}", ranks),
           fmt::join(divisors(b.global / ranks), ", "));
    sizes_of_all();
    const int64_t microbatches = b.global / ranks / b.micro;
    if (microbatches > kMostCalls / c_.model.all_layers())
      fail("batch.micro",
           "= {} makes {} micro-batches of {} layers each, more than {} calls a step. Wanted "
           "larger ones.",
           b.micro, microbatches, c_.model.all_layers(), kMostCalls);
    ramp();
  }

  // Each size is a program of its own, so that their number and all their calls are bounded.
  void ramp() const {
    const BatchSection& b = c_.batch;
    const int64_t together = c_.layout.data * b.micro, most = kMostCalls / c_.model.all_layers();
    if (std::ssize(b.ramp) > kMostRampSizes)
      fail("batch.ramp", "has {} sizes, expected at most {}.", b.ramp.size(), kMostRampSizes);
    int64_t microbatches = 0;
    for (const int64_t g : b.ramp) {
      if (g < 1 || g % together != 0)
        fail("batch.ramp", "has {}, wanted multiples of layout.data × batch.micro = {}", g,
             together);
      if (g / together > most - microbatches)
        fail("batch.ramp",
             "has {}: {} micro-batches of {} layers each, and the sizes together exceed {} calls. "
             "Use smaller sizes or a larger batch.micro.",
             g, g / together, c_.model.all_layers(), kMostCalls);
      microbatches += g / together;
    }
    if (b.ramp.empty() != (b.ramp_steps == 0) || b.ramp_steps < 0)
      fail("batch.ramp_steps", "= {} with {} batches on the ramp, wanted both or none",
           b.ramp_steps, b.ramp.size());
    int64_t largest = b.global;
    for (const int64_t g : b.ramp) largest = std::max(largest, g);
    const double tokens =
        static_cast<double>(std::max(c_.schedule.steps, b.ramp_steps)) *
        static_cast<double>(largest) *
        (static_cast<double>(c_.data.sequence_length) + static_cast<double>(c_.data.target_length));
    if (tokens > kMostTokens)
      fail(b.ramp_steps > c_.schedule.steps ? "batch.ramp_steps" : "schedule.steps",
           "with batches of {} makes {:.1e} tokens, expected at most {:.0e}.", largest, tokens,
           kMostTokens);
  }

  // What is counted in bytes must not leave 64 bits.
  void sizes_of_all() const {
    const ModelConfig& m = c_.model;
    const auto layers = static_cast<double>(m.all_layers());
    const auto hidden = static_cast<double>(m.hidden), inner = static_cast<double>(m.feed_forward);
    const double heads = static_cast<double>(m.heads) * static_cast<double>(m.head_size());
    const auto vocabulary = static_cast<double>(m.vocabulary + m.vocabulary_multiple);
    const double tokens = 2 * static_cast<double>(c_.data.sequence_length);
    const double widest = 4 * heads + 3 * inner + hidden + vocabulary;
    const double global = static_cast<double>(c_.batch.global) * tokens * widest;
    const double micro = static_cast<double>(c_.batch.micro) * tokens * widest * layers;
    if (std::max(global, micro) > kMostNumbers)
      fail("batch.global",
           "= {} in micro-batches of {} makes {:.1e} activations, wanted {:.0e} at most",
           c_.batch.global, c_.batch.micro, std::max(global, micro), kMostNumbers);
  }

  void lora() const {
    if (!c_.lora.targets.empty() && c_.lora.rank == 0)
      fail("lora.targets",
           "are given, but lora.rank is 0. Set lora.rank, such as 16, or for no adapters "
           "lora.targets=[]");
  }

  void loss_scale() const {
    const LossScaleSection& s = c_.loss_scale;
    if (!(s.initial >= s.least))
      fail("loss_scale.initial", "= {}, wanted loss_scale.least = {} or more", s.initial, s.least);
  }

  void schedule() const {
    const ScheduleSection& s = c_.schedule;
    if (s.warmup_steps > s.steps)
      fail("schedule.warmup_steps", "= {} is more than schedule.steps = {}", s.warmup_steps,
           s.steps);
    if (s.kind == ScheduleKind::kWsd && s.warmup_steps + s.decay_steps > s.steps)
      fail("schedule.decay_steps", "= {} and warmup_steps = {} are more than schedule.steps = {}",
           s.decay_steps, s.warmup_steps, s.steps);
  }

  void layout() const {
    const Layout& l = c_.layout;
    at_its_key([&] {
      const CompileRequest r = request();
      check_layout(c_.model, l, {c_.batch.global, c_.batch.micro, r.tokens, r.source});
      check_head_copies(r);
    });
    recompute(l.recompute);
    offload(l.offload);
  }

  void recompute(const std::string& text) const {
    if (text == "none" || text == "selective" || text == "full") return;
    int64_t n = -1;
    const char* end = text.data() + text.size();
    if (text.starts_with("full:") && std::from_chars(text.data() + 5, end, n).ptr == end &&
        n >= 0 && n <= c_.model.all_layers())
      return;
    fail("layout.recompute",
         "= '{}', wanted none, selective, full or full:N with N up to {} (the "
         "first N layers)",
         text, c_.model.all_layers());
  }

  void offload(const std::string& text) const {
    try {
      parse_offload(text);
    } catch (const Error&) {
      fail("layout.offload",
           "= '{}', wanted none, activations or activations:N (of the first N layers of each "
           "stage)",
           text);
    }
  }

  void checkpoint() const {
    const CheckpointSection& k = c_.checkpoint;
    for (const int64_t step : k.at_steps)
      if (step < 1 || step > c_.schedule.steps)
        fail("checkpoint.at_steps", "has {}, wanted 1 to schedule.steps = {}", step,
             c_.schedule.steps);
    if (k.load == Load::kAll && k.from.empty())
      fail("checkpoint.load", "= all, but checkpoint.from names no checkpoint");
  }

  void evaluation() const {
    const EvaluationSection& e = c_.evaluation;
    if (e.every_steps > 0 && e.tasks.empty())
      fail("evaluation.every_steps", "= {}, but evaluation.tasks names no task file",
           e.every_steps);
  }

  const RunConfig& c_;
  DataUse use_;
};

}  // namespace

void validate(const RunConfig& config, DataUse use) { Validation(config, use).all(); }
void validate_names(const RunConfig& config) { Validation(config).names(); }

}  // namespace tessera
