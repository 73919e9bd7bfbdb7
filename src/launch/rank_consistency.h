// Checks before the first step that all ranks of a run have the same program version and
// configuration. All functions are pure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tessera::launch {

struct RankFacts {
  int rank = 0;
  std::string host, version;
  std::string config;  // the configuration as one JSON object
  double clock_s = 0;  // wall clock of the rank minus a clock common to all, such as a receive time
};

struct RankConsistency {
  std::string error;  // "rank 3 on n02 runs tessera 0.1.1, the others 0.1.0"; empty: all agree
  int rank = 0;       // the first rank that the error is about
  std::vector<std::string> warnings;  // clocks that differ by over two seconds; training ignores it
};

// Returns the ranks that differ from the majority. `ranks` must be ascending and not empty.
RankConsistency compare(std::span<const RankFacts> ranks);

// Encodes facts as JSON text that ranks can exchange. parse_facts() throws Error for any other
// text.
std::string to_text(const RankFacts& facts);
RankFacts parse_facts(const std::string& text);

}  // namespace tessera::launch
