// Computes the log-probabilities of answers under the reference model, or reads them from the run
// directory. Rank 0 reads and writes the file; the data-parallel ranks divide the pairs.
#include "train/references.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/config.h"
#include "base/count.h"
#include "base/error.h"
#include "checkpoint/checksum.h"
#include "comm/agree.h"
#include "config/run_request.h"
#include "ir/ops/preference.h"
#include "train/answer_sums.h"

namespace tessera::train {
namespace {

constexpr int64_t kVersion = 2;

// A pair in the file.
struct Record {
  std::array<double, kAnswersPerRow> log_probs;
  uint64_t checksum;
};

// Returns the checksum of the pair with this number in the data.
uint64_t checksum_of_pair(int64_t pair, const std::array<double, kAnswersPerRow>& log_probs) {
  checkpoint::Checksum sum;
  sum.add(std::as_bytes(std::span(&pair, 1)));
  sum.add(std::as_bytes(std::span(log_probs)));
  return sum.value();
}

void add_file(const Path& file, checkpoint::Checksum& sum) {
  const MappedFile mapped(file);
  const std::string name = file.filename().string();
  sum.add(std::as_bytes(std::span(name)));
  sum.add(mapped.bytes());
}

// Returns a checksum of the tensors in a folder. The index of a checkpoint has the checksums of its
// tensors; other folders have none, so their files are read.
std::string checksum_of_folder(const Path& folder) {
  checkpoint::Checksum sum;
  if (std::filesystem::exists(folder / "index.json")) {
    add_file(folder / "index.json", sum);
    return checkpoint::checksum_text(sum.value());
  }
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Path type = entry.path().extension();
    if (entry.is_regular_file() && (type == ".safetensors" || type == ".bin"))
      files.push_back(entry.path());
  }
  // The factor of adapters is in their description.
  if (const Path adapter = folder / "adapter_config.json"; std::filesystem::exists(adapter))
    files.push_back(adapter);
  std::sort(files.begin(), files.end());
  for (const Path& file : files) add_file(file, sum);
  return checkpoint::checksum_text(sum.value());
}

// Returns text that identifies the reference model: its weights, and how it computes with them.
std::string weights_key(const config::RunConfig& config, const Path& checkpoint) {
  std::string key = fmt::format(
      "model {}, precision {}, quantize {}",
      checkpoint::checksum_text(checkpoint::checksum_of(to_json(tessera::to_tree(config.model)))),
      name_of_entry(config.precision), name_of_entry(config.lora.quantize));
  if (config.objective.reference == config::ReferenceSource::kAdaptersOff)
    key += ", adapters off";
  else if (!config.lora.from.empty())
    key += fmt::format(", adapters {}", checksum_of_folder(config.lora.from));
  if (checkpoint.empty())
    return fmt::format("initial weights of seed {}, {}", config.run.seed, key);
  return fmt::format("checkpoint {}, {}", checksum_of_folder(checkpoint), key);
}

// The file of one run. Only rank 0 has one.
class ReferenceFile {
 public:
  ReferenceFile(const Path& run, const data::PreferenceData& data)
      : data_(checkpoint::checksum_text(data.fingerprint())),
        pairs_(data.pairs()),
        path_(run / fmt::format("references-{}.bin", data_)) {}

  const Path& path() const { return path_; }

  // Returns the log-probabilities in the file, two per pair, up to the first damaged pair; none if
  // there is no file or it is of another model. An empty key fits any model.
  std::vector<double> read(const std::string& weights) const {
    if (!std::filesystem::exists(path_)) return {};
    const std::string bytes = read_file(path_);
    const size_t end = bytes.find('\n');
    if (end == bytes.npos) return {};
    const Tree head = parse_json(bytes.substr(0, end), path_.string());
    const auto text = [&](const char* key) -> std::string {
      const Tree* t = head.as_members() != nullptr ? head.find(key) : nullptr;
      return t != nullptr && t->as_string() != nullptr ? *t->as_string() : "";
    };
    const Tree* const version = head.as_members() != nullptr ? head.find("version") : nullptr;
    if (version == nullptr || number_in(*version) != kVersion) return {};
    if (text("data") != data_ || (!weights.empty() && text("weights") != weights)) return {};
    std::vector<Record> records(
        std::min<size_t>((bytes.size() - end - 1) / sizeof(Record), pairs_));
    std::memcpy(records.data(), bytes.data() + end + 1, records.size() * sizeof(Record));
    std::vector<double> out;
    for (const Record& r : records) {
      if (checksum_of_pair(std::ssize(out) / kAnswersPerRow, r.log_probs) != r.checksum) break;
      out.insert(out.end(), r.log_probs.begin(), r.log_probs.end());
    }
    return out;
  }

  // Begins a file with these numbers; append() adds more.
  void begin(const std::string& weights, const std::vector<double>& known) const {
    Tree head;
    head.set("version", Tree(kVersion));
    head.set("pairs", Tree(pairs_));
    head.set("data", Tree(data_));
    head.set("weights", Tree(weights));
    write_file(path_, to_json(head) + "\n" + records_of(0, known));
  }
  // Adds the numbers of the pairs from `first` on.
  void append(int64_t first, std::span<const double> numbers) const {
    const std::string bytes = records_of(first, numbers);
    std::ofstream out(path_, std::ios::binary | std::ios::app);
    out.write(bytes.data(), std::ssize(bytes));
    out.flush();
    if (!out) throw Error("{}: cannot be written. Make space on the disk", path_.string());
  }

 private:
  static std::string records_of(int64_t first, std::span<const double> numbers) {
    std::string bytes;
    for (size_t i = 0; i < numbers.size(); i += kAnswersPerRow) {
      Record r{};
      std::copy_n(numbers.begin() + static_cast<int64_t>(i), kAnswersPerRow, r.log_probs.begin());
      r.checksum = checksum_of_pair(first + static_cast<int64_t>(i) / kAnswersPerRow, r.log_probs);
      bytes.append(reinterpret_cast<const char*>(&r), sizeof(r));
    }
    return bytes;
  }

  std::string data_;
  int64_t pairs_;
  Path path_;
};

// Throws NumericError for a log-probability of the pairs from `first` on that is not finite.
void require_finite(std::span<const double> numbers, const data::PreferenceData& data,
                    int64_t first) {
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!std::isfinite(numbers[i]))
      throw NumericError("{}: the log-probability of an answer under the reference model is {}",
                         data.place(first + static_cast<int64_t>(i) / kAnswersPerRow), numbers[i]);
}

std::string to_bytes(const std::vector<double>& x) {
  return {reinterpret_cast<const char*>(x.data()), x.size() * sizeof(double)};
}

}  // namespace

std::vector<double> log_probs_of(std::span<const double> sums) {
  std::vector<double> out;
  for (size_t i = kAnswerSum; i < sums.size(); i += kAnswerColumns) out.push_back(sums[i]);
  return out;
}

namespace {

// Gives one set its log-probabilities. `weights` is the key of the reference model, on rank 0.
void set_references_of(data::PreferenceData& data, const std::string& weights,
                       const config::RunConfig& config, Trainer& trainer, comm::World& world,
                       const ReferencePass& pass) {
  const bool writes = world.rank() == 0;
  const ReferenceFile file(pass.run, data);
  std::string bytes;
  comm::on_all(world, [&] {
    if (writes) bytes = to_bytes(file.read(weights));
  });
  world.broadcast(bytes, 0);
  std::vector<double> all(bytes.size() / sizeof(double));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const int64_t pairs = data.pairs();
  if (std::ssize(all) == kAnswersPerRow * pairs) {
    pass.say(fmt::format("reference log-probabilities of {} pairs from {}", format_count(pairs),
                         file.path().string()));
    return data.set_references(std::move(all));
  }
  if (!pass.has_reference_weights &&
      config.objective.reference != config::ReferenceSource::kAdaptersOff)
    throw Error(
        "{}: {}, expected those of the {} pairs of {} under the reference model. The weights of "
        "this run have been trained since, so they cannot be computed again. Restore the file, use "
        "the data that the run began with, or start a new run",
        file.path().string(),
        std::filesystem::exists(file.path())
            ? fmt::format("has intact log-probabilities of {} pairs",
                          std::ssize(all) / kAnswersPerRow)
            : "does not exist",
        pairs, fmt::join(data.files(), ", "));
  BatchMemory batch;
  AnswerPass forward(trainer.engine(), reference_program(config), batch, data, &world);
  all.resize(std::ssize(all) / kAnswersPerRow / forward.together() * forward.together() *
             kAnswersPerRow);
  const int64_t known = std::ssize(all) / kAnswersPerRow;
  comm::on_all(world, [&] {
    if (writes) file.begin(weights.empty() ? "a resumed run without its adapters" : weights, all);
  });
  for (int64_t first = known; first < pairs; first += forward.together()) {
    pass.doing(fmt::format("computing reference log-probabilities, pair {} of {}", first, pairs));
    const std::vector<double> found = log_probs_of(forward.run(first, pairs));
    require_finite(found, data, first);
    all.insert(all.end(), found.begin(), found.end());
    comm::on_all(world, [&] {
      if (writes) file.append(first, found);
    });
  }
  pass.say(fmt::format(
      "reference log-probabilities of {} pairs computed{}", format_count(pairs),
      known > 0 ? fmt::format(", the first {} from the run directory", format_count(known)) : ""));
  data.set_references(std::move(all));
}

}  // namespace

void set_references(const config::RunConfig& config, Trainer& trainer,
                    std::span<data::PreferenceData* const> sets, comm::World& world,
                    const ReferencePass& pass) {
  std::string weights;
  comm::on_all(world, [&] {
    if (world.rank() == 0 && pass.has_reference_weights)
      weights = weights_key(config, pass.checkpoint);
  });
  for (data::PreferenceData* data : sets)
    set_references_of(*data, weights, config, trainer, world, pass);
}

std::vector<double> stored_references(const Path& run, const data::PreferenceData& data) {
  std::vector<double> found = ReferenceFile(run, data).read("");
  if (std::ssize(found) < kAnswersPerRow * data.pairs()) found.clear();
  return found;
}

}  // namespace tessera::train
