// Chooses the checkpoint to start from: falls back from damaged checkpoints to the newest intact
// one, on all ranks together. A checkpoint counts as damaged if any rank finds damage, since each
// rank reads only its own shard.
#include "train/load_start.h"

#include "base/error.h"
#include "base/tree.h"
#include "checkpoint/checkpoint.h"

namespace tessera::train {
namespace {

Tree to_tree(const std::vector<Path>& paths) {
  Tree list = Tree::list();
  for (const Path& p : paths) list.push(Tree(p.string()));
  return list;
}

std::vector<Path> paths_of(const Tree& tree) {
  std::vector<Path> paths;
  for (const Tree& t : *tree.as_list()) paths.emplace_back(*t.as_string());
  return paths;
}

// Returns the message of the first rank that found damage; empty if none did.
std::string damage_of_any(comm::World& world, const std::string& own) {
  if (world.size() == 1) return own;
  for (const std::string& text : world.all_gather(own))
    if (!text.empty()) return text;
  return "";
}

}  // namespace

StartingPoint agreed_start(comm::World& world, const std::function<StartingPoint()>& find) {
  StartingPoint start;
  // Only rank 0 lists the directories. Other ranks could see different states of a shared file
  // system and would start from different checkpoints.
  if (world.rank() == 0) start = find();
  if (world.size() == 1) return start;
  // The starting point is sent as JSON text.
  Tree t;
  t.set("candidates", to_tree(start.candidates));
  t.set("weights", Tree(start.load == config::Load::kWeights));
  t.set("resumes", Tree(start.resumes));
  t.set("goes_back", Tree(start.goes_back));
  std::string text = to_json(t);
  world.broadcast(text, 0);
  const Tree agreed = parse_json(text, "the start of rank 0");
  start.candidates = paths_of(*agreed.find("candidates"));
  start.load =
      std::get<bool>(agreed.find("weights")->value) ? config::Load::kWeights : config::Load::kAll;
  start.resumes = std::get<bool>(agreed.find("resumes")->value);
  start.goes_back = std::get<bool>(agreed.find("goes_back")->value);
  return start;
}

LoadedStart load_newest_intact(const StartingPoint& start, comm::World& world,
                               const std::function<checkpoint::CheckpointHeader(const Path&)>& load,
                               const std::function<void(const std::string&)>& warn) {
  LoadedStart loaded;
  std::string reasons;
  for (const Path& path : start.candidates) {
    std::string own;
    try {
      loaded.header = load(path);
    } catch (const checkpoint::DamagedCheckpoint& error) {
      own = error.what();
    }
    // Collective: if one rank finds damage, all ranks advance to the next checkpoint together.
    const std::string damage = damage_of_any(world, own);
    if (damage.empty()) {
      loaded.checkpoint = path;
      return loaded;
    }
    // A checkpoint that the user named is never replaced by another one.
    const bool named = start.candidates.size() == 1 && (!start.resumes || start.goes_back);
    if (named) throw Error("{}", damage);
    warn(fmt::format("{} is not used: {}", path.string(), damage));
    reasons += "\n  " + damage;
    loaded.damaged.push_back(path);
  }
  throw Error(
      "{}: none of the checkpoints there ({}) can be used:{}\n  Restore one of them, or {}.",
      start.candidates[0].parent_path().string(), start.candidates.size(), reasons,
      start.resumes ? "set checkpoint.resume=never to start from scratch (they are then set aside)"
                    : "name another checkpoint.from");
}

checkpoint::CheckpointHeader load_checkpoint(const Path& checkpoint, const StartingPoint& start,
                                             const config::RunConfig& config, Trainer& trainer,
                                             const std::function<void(const std::string&)>& say) {
  checkpoint::CheckpointReader reader(checkpoint);
  const checkpoint::CheckpointHeader& header = reader.header();
  for (const Change& c : changes_since(config, start, checkpoint, header))
    say(fmt::format("changed   {}: {} → {}", c.path, c.before, c.after));
  try {
    trainer.load(reader, start.load);
  } catch (const checkpoint::DamagedCheckpoint&) {
    throw;
  } catch (const NumericError&) {
    throw;
  } catch (const Error& e) {
    // Other errors are explained by a difference of the models, if there is one.
    const std::string other = other_model(config, header.model);
    if (other.empty()) throw;
    throw Error("{}\n  {}{}", e.what(), checkpoint.string(), other);
  }
  return header;
}

bool is_own(const Path& run, const Path& checkpoint) {
  std::error_code error;
  const Path above = std::filesystem::absolute(checkpoint, error).lexically_normal().parent_path();
  return std::filesystem::equivalent(run / "checkpoints", above, error);
}

std::vector<std::string> make_way(const Path& run, const StartingPoint& start,
                                  const LoadedStart& loaded, int64_t step, double wall_s) {
  std::vector<std::string> lines;
  for (const Path& damaged : loaded.damaged)
    if (is_own(run, damaged))
      lines.push_back(fmt::format("renamed   {} to {}", damaged.string(),
                                  checkpoint::rename_damaged(damaged).filename().string()));
  if (!start.goes_back) return lines;
  const bool own = start.load == config::Load::kAll && is_own(run, loaded.checkpoint);
  std::string line = set_aside({run, step, own, wall_s});
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace tessera::train
