#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/tree.h"

namespace tessera {
namespace {

// The step of one line of the file.
int64_t step_of(std::string_view line, const std::string& source, int64_t number) {
  const Tree tree = parse_json(line, source, static_cast<int>(number));
  const Tree* step = tree.find("step");
  const auto* n = step ? std::get_if<int64_t>(&step->value) : nullptr;
  if (!n) {
    throw Error(
        "{}:{}: this line is no object with a whole number 'step'. The file was changed by "
        "something else; mend the line or move the file away and start again.",
        source, number);
  }
  return *n;
}

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

std::string to_json_line(const StepMetrics& m) {
  Tree t = Tree::object();
  t.set("step", Tree(m.step));
  t.set("tokens", Tree(m.tokens));
  t.set("loss", Tree(m.loss));
  t.set("grad_norm", Tree(m.grad_norm));
  t.set("learning_rate", Tree(m.learning_rate));
  t.set("step_s", Tree(m.step_s));
  t.set("data_s", Tree(m.data_s));
  t.set("tokens_per_s", Tree(m.tokens_per_s));
  t.set("model_flops_per_s", Tree(m.model_flops_per_s));
  t.set("model_flops_share", Tree(m.model_flops_share));
  if (m.communication) set(t, *m.communication);
  if (m.loss_scale) {
    t.set("loss_scale", Tree(m.loss_scale->scale));
    t.set("skipped", Tree(m.loss_scale->skipped));
  }
  return to_json(t);
}

std::string to_json_line(const ValidationMetrics& m) {
  Tree t = Tree::object();
  t.set("step", Tree(m.step));
  t.set("name", Tree(m.name));
  t.set("validation_loss", Tree(m.validation_loss));
  t.set("bits_per_byte", Tree(m.bits_per_byte));
  return to_json(t);
}

int64_t cut_back(const Path& path, int64_t step) {
  if (!std::filesystem::exists(path)) return 0;
  const std::string text = read_file(path);
  std::string kept;
  int64_t gone = 0, number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    ++number;
    if (end == std::string::npos) {  // torn by a kill in the middle of a write
      ++gone;
      break;
    }
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    if (step_of(line, path.string(), number) <= step) {
      kept.append(line).push_back('\n');
    } else {
      ++gone;
    }
  }
  if (kept != text) write_file(path, kept);
  return gone;
}

MetricsFile::MetricsFile(Path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw Error("{}: cannot be opened for writing: {}", path_.string(), strerror(errno));
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFile::append_line(std::string line) {
  line.push_back('\n');
  const char* next = line.data();
  size_t left = line.size();
  while (left > 0) {
    const ssize_t n = ::write(fd_, next, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw Error("{}: a line could not be written: {}. Make room and start the run again.",
                  path_.string(), strerror(errno));
    }
    next += n;
    left -= static_cast<size_t>(n);
  }
}

void MetricsFile::sync() {
  if (::fdatasync(fd_) != 0 && errno != EINVAL) {
    throw Error("{}: could not be flushed to the disk: {}", path_.string(), strerror(errno));
  }
}

}  // namespace tessera
