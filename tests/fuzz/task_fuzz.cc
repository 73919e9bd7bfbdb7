// A task file, a line "===", its examples as JSON lines, another such line, and a text that a model
// wrote: examples and an answer, or an Error.
#include "base/error.h"
#include "eval/task.h"
#include "tests/fuzz/scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  constexpr std::string_view kCut = "\n===\n";
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto part = [&] {
    const size_t end = std::min(rest.find(kCut), rest.size());
    const std::string_view first = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kCut.size(), rest.size()));
    return first;
  };
  const Path file = scratch_folder() / "task.yaml", examples = scratch_folder() / "task.jsonl";
  put(file, part());
  put(examples, part());
  try {
    const eval::TaskSpec spec = eval::read_task(file);
    if (!spec.extract.empty()) {
      const std::string answer = eval::AnswerPattern(spec.extract).find(rest);
      CHECK(answer.size() <= rest.size(), "{} bytes of {}", answer.size(), rest.size());
    }
    for (const eval::Example& e : eval::read_examples(spec, examples))
      CHECK(!e.options.empty() && e.gold < std::ssize(e.options), "option {} of {}", e.gold,
            e.options.size());
  } catch (const Error&) {
  }
  return 0;
}
