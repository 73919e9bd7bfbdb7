// Which of several weighted sources gives which sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::data {

// Samples are numbered from 0 and every one belongs to one source. After n samples a source of
// weight w (of a sum of 1) has given more than n·w − 1 and fewer than n·w + 1 of them, for each n.
//   One or two sources: the one that lags most, w·max(s, 1) − given, gives sample s; the first of
//     equals (Megatron's rule). With more sources that rule alone drifts up to 1.6 samples away.
//   More: of those that may give (given < w·(s+1)), the one with the largest w / (given + 1); of
//     equals the one that lags most, then the first (the quota method, Balinski & Young 1975).
// The choice is exact, in integers: weights count to 2^-40 of the largest.
class Blend {
 public:
  // Weights are positive and finite; their sum is free. CHECKed: whoever reads them from people
  // says what is wrong with them.
  explicit Blend(std::span<const double> weights);

  // Continues a blend in which each source has given `given` samples. Call it before the first
  // at(). Earlier samples are found as in a blend that begins at 0.
  void continue_from(std::span<const int64_t> given);

  struct Pick {
    int source;
    int64_t index;  // how many samples that source has given before
  };
  // Any sample in any order; the next one in O(sources). The first jump to sample s takes
  // O(s · sources) once, about 10 ns per sample, and stores 8 bytes per source every 4,096 samples;
  // with a single source, neither.
  Pick at(int64_t sample);

  // How many of the first `samples` each source gives.
  std::vector<int64_t> given(int64_t samples);

 private:
  // The state before a sample.
  struct Mark {
    int64_t sample;
    std::vector<int64_t> given;
  };
  int choose() const;  // the source of sample next_
  void seek(int64_t sample);

  std::vector<int64_t> weights_;  // in units of 1 / total_
  int64_t total_ = 0;
  int64_t next_ = 0;            // the state below is before this sample
  std::vector<int64_t> given_;  // by each source
  std::vector<Mark> marks_;     // ascending
};

}  // namespace tessera::data
