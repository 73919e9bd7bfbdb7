// All ranks of a run are the same program with the same configuration; what differs is named before
// the first step. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tessera::launch {

struct RankFacts {
  int rank = 0;
  std::string host, version;
  std::string config;  // as one JSON object
  double clock_s = 0;  // its clock less one that all share, such as when its word came
};

struct Agreement {
  std::string error;  // "rank 3 on n02 runs tessera 0.1.1, the others 0.1.0"; empty: they agree
  int rank = 0;       // the first of those the error is about
  std::vector<std::string> warnings;  // clocks over two seconds apart: nothing depends on them
};

// Who differs from most. `ranks` ascends and is not empty.
Agreement compare(std::span<const RankFacts> ranks);

// For an all-gather of texts of one size or of many; throws Error for what is none of ours.
std::string to_text(const RankFacts& facts);
RankFacts parse_facts(const std::string& text);

}  // namespace tessera::launch
