#include "cli/tune_history.h"

#include "base/error.h"

namespace tessera {
namespace {

const Tree& member(const Tree& t, const char* name, const Path& path) {
  const Tree* m = t.find(name);
  if (m == nullptr) throw Error("{}: a trial has no '{}'.", path.string(), name);
  return *m;
}

bool is_point(const Space& space, const Point& p, const Tree& told) {
  for (size_t k = 0; k < space.knobs.size(); ++k) {
    const Tree* choice = told.find(space.knobs[k].key);
    const std::string* text = choice == nullptr ? nullptr : choice->as_string();
    if (text == nullptr || *text != space.knobs[k].choices[static_cast<size_t>(p[k])]) return false;
  }
  return true;
}

}  // namespace

Tree as_tree(const Space& space, const std::vector<PastTrial>& trials) {
  Tree list = Tree::list();
  for (const PastTrial& trial : trials) {
    Tree point = Tree::object(), one;
    for (size_t k = 0; k < space.knobs.size(); ++k) {
      const int choice = space.points[trial.point][k];
      point.set(space.knobs[k].key, Tree(space.knobs[k].choices[static_cast<size_t>(choice)]));
    }
    one.set("point", std::move(point));
    one.set("outcome", Tree(std::string(name_of(trial.result.outcome))));
    one.set("seconds", Tree(trial.result.seconds));
    list.push(std::move(one));
  }
  Tree t;
  t.set("trials", std::move(list));
  return t;
}

void write_history(const Path& path, const Space& space, const std::vector<PastTrial>& trials) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  write_file(path, to_json(as_tree(space, trials), 1) + "\n");
}

std::vector<PastTrial> read_history(const Path& path, const Space& space) {
  std::vector<PastTrial> past;
  if (!std::filesystem::exists(path)) return past;
  const Tree t = parse_json(read_file(path), path.string());
  const Tree::List* list = member(t, "trials", path).as_list();
  if (list == nullptr) throw Error("{}: 'trials' is no list.", path.string());
  for (const Tree& one : *list) {
    const Tree& told = member(one, "point", path);
    const std::string* outcome = member(one, "outcome", path).as_string();
    const double* seconds = std::get_if<double>(&member(one, "seconds", path).value);
    if (outcome == nullptr) throw Error("{}: an outcome is no text.", path.string());
    const TrialResult result{parse_outcome(*outcome), seconds == nullptr ? 0 : *seconds};
    if (result.outcome == Outcome::kRan && !(result.seconds > 0))
      throw Error("{}: a trial that ran took no time.", path.string());
    for (size_t i = 0; i < space.points.size(); ++i)
      if (is_point(space, space.points[i], told)) past.push_back({i, result});
  }
  return past;
}

}  // namespace tessera
