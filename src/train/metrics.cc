// Formats the lines of metrics.jsonl, and truncates the file when a run resumes from an earlier
// step.
#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/tree.h"

namespace tessera::train {
namespace {

void set(Tree& t, const StepCommunication& c) {
  t.set("communication_hidden_s", Tree(c.hidden_s));
  t.set("communication_exposed_s", Tree(c.exposed_s));
  t.set("bubble_share", Tree(c.bubble_share));
  Tree bytes = Tree::object();
  for (size_t i = 0; i < kTrafficAxes.size(); ++i)
    bytes.set(std::string(kTrafficAxes[i]), Tree(c.bytes_sent[i]));
  t.set("bytes_sent", std::move(bytes));
  t.set("slowest_rank", Tree(c.slowest_rank));
  t.set("slowest_over_mean", Tree(c.slowest_over_mean));
}

}  // namespace

std::vector<std::pair<std::string, double>> figures_of(const PreferenceMetrics& m) {
  std::vector<std::pair<std::string, double>> out = {{"rewards_chosen", m.chosen_reward},
                                                     {"rewards_rejected", m.rejected_reward},
                                                     {"rewards_margins", m.margin()}};
  if (m.has_accuracy) out.emplace_back("rewards_accuracies", m.accuracy);
  if (m.has_log_probs) {
    out.emplace_back("logps_chosen", m.chosen_log_prob);
    out.emplace_back("logps_rejected", m.rejected_log_prob);
  }
  if (m.kl) out.emplace_back("kl", *m.kl);
  if (m.chosen_nll) out.emplace_back("nll_loss", *m.chosen_nll);
  return out;
}

std::string text_of(const PreferenceMetrics& m) {
  const std::string margin = fmt::format("margin {:.3f}", m.margin());
  return m.has_accuracy ? fmt::format("accuracy {:.3f}, {}", m.accuracy, margin) : margin;
}

std::string to_json_line(const StepMetrics& m) {
  Tree t = Tree::object();
  t.set("step", Tree(m.step));
  t.set("tokens", Tree(m.tokens));
  t.set("loss", Tree(m.loss));
  t.set("grad_norm", Tree(m.grad_norm));
  t.set("learning_rate", Tree(m.learning_rate));
  t.set("step_s", Tree(m.step_s));
  t.set("data_s", Tree(m.data_s));
  if (m.resident_bytes > 0) t.set("resident_bytes", Tree(m.resident_bytes));
  t.set("tokens_per_s", Tree(m.tokens_per_s));
  t.set("model_flops_per_s", Tree(m.model_flops_per_s));
  t.set("model_flops_share", Tree(m.model_flops_share));
  if (m.communication) set(t, *m.communication);
  if (m.loss_scale) {
    t.set("loss_scale", Tree(m.loss_scale->scale));
    t.set("skipped", Tree(m.loss_scale->skipped));
  }
  if (m.z_loss) t.set("z_loss", Tree(*m.z_loss));
  if (m.mtp_loss) t.set("mtp_loss", Tree(*m.mtp_loss));
  if (m.noise_scale) t.set("noise_scale", Tree(*m.noise_scale));
  if (m.preference)
    for (const auto& [key, value] : figures_of(*m.preference)) t.set(key, Tree(value));
  if (m.router) {
    t.set("router_loss", Tree(m.router->loss));
    t.set("busiest_expert", Tree(m.router->busiest));
    t.set("load_entropy", Tree(m.router->entropy));
    if (m.router->dropped) t.set("dropped_share", Tree(*m.router->dropped));
  }
  return to_json(t);
}

std::string to_json_line(const ValidationMetrics& m) {
  Tree t = Tree::object();
  t.set("step", Tree(m.step));
  t.set("name", Tree(m.name));
  t.set("validation_loss", Tree(m.validation_loss));
  if (m.bits_per_byte) t.set("bits_per_byte", Tree(*m.bits_per_byte));
  if (m.preference)
    for (const auto& [key, value] : figures_of(*m.preference))
      t.set("validation_" + key, Tree(value));
  return to_json(t);
}

std::string to_json_line(const SourceMetrics& m) {
  Tree t = Tree::object();
  t.set("step", Tree(m.step));
  t.set("source", Tree(m.source));
  t.set("source_loss", Tree(m.loss));
  t.set("source_tokens", Tree(m.tokens));
  return to_json(t);
}

namespace {

struct Line {
  std::string_view text;  // with the newline
  int64_t step = -1;      // -1: damaged
  std::string name;       // name of the validation set or task
  std::optional<double> validation_loss;
  std::string problem;  // description of the damage
};

// Reads the step of a line. A damaged line is returned with a description of the problem, so that
// the caller can continue.
Line read_line(std::string_view text, const std::string& source, int64_t number) {
  Line line{text, -1, "", std::nullopt, ""};
  text.remove_suffix(1);
  if (text.empty()) return line;
  try {
    const Tree tree = parse_json(text, source, static_cast<int>(number));
    const Tree* step = tree.find("step");
    const auto* n = step ? std::get_if<int64_t>(&step->value) : nullptr;
    if (!n) throw Error("{}:{}: not a JSON object with an integer 'step'", source, number);
    line.step = *n;
    for (const char* key : {"name", "task"})
      if (const Tree* name = tree.find(key); name && name->as_string())
        line.name = *name->as_string();
    if (const Tree* loss = tree.find("validation_loss"))
      line.validation_loss = number_in(*loss).value_or(NAN);
  } catch (const Error& e) {
    line.problem = e.what();
  }
  return line;
}

// Returns an unused name for damaged lines. symlink_status() also finds a dangling link, which
// exists() alone would miss.
Path unused_name(const Path& path) {
  for (int n = 1;; ++n) {
    Path name = path;
    name += n == 1 ? ".damaged" : fmt::format(".damaged.{}", n);
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::symlink_status(name, ignored))) return name;
  }
}

// Truncates the file, which needs no space, so it works on a full disk too.
void shorten(const Path& path, size_t bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool done = fd >= 0 && ::ftruncate(fd, bytes) == 0 && ::fsync(fd) == 0;
  const int why = errno;
  if (fd >= 0) ::close(fd);
  if (!done) throw Error("{}: cannot be truncated: {}", path.string(), std::strerror(why));
}

}  // namespace

// Removes the lines of later steps, which the resumed run writes again. Lines of validations at
// `step` itself stay, and their names are returned, so that these are not repeated.
CutBack cut_back(const Path& path, int64_t step) {
  CutBack result;
  if (!std::filesystem::exists(path)) return result;
  const std::string text = read_file(path);
  std::string kept, damaged;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    ++number;
    if (end == std::string::npos) {  // the process was killed during a write
      ++result.removed;
      break;
    }
    const std::string_view whole(text.data() + begin, end + 1 - begin);
    const Line line = read_line(whole, path.string(), number);
    begin = end + 1;
    if (!line.problem.empty()) {
      if (damaged.empty()) result.problem = line.problem;
      damaged += whole;
      ++result.damaged;
    } else if (line.step > step) {
      ++result.removed;
    } else if (line.step >= 0) {
      kept += whole;
      if (line.step == step && !line.name.empty()) result.names_at_step.insert(line.name);
      if (line.validation_loss)
        result.validations.push_back({line.step, line.name, *line.validation_loss});
    }
  }
  // Damaged lines are saved elsewhere before they are removed here.
  if (!damaged.empty()) {
    result.damaged_file = unused_name(path);
    write_file(result.damaged_file, damaged);
  }
  // A new file replaces the old one, to which the previous owner of the run may still write.
  try {
    write_file(path, kept);
  } catch (const Error&) {
    if (!text.starts_with(kept)) throw;
    shorten(path, kept.size());
  }
  return result;
}

}  // namespace tessera::train
