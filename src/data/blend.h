// Assigns samples to several weighted sources.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::data {

// Samples are numbered from 0, and each belongs to one source. For every n, a source of weight w
// (with the weights normalized to a sum of 1) has more than n·w − 1 and fewer than n·w + 1 of the
// first n samples.
//   One or two sources: sample s comes from the source with the largest lag, w·max(s, 1) − given;
//     among equals, from the first one (Megatron's rule). With more sources, this rule alone
//     deviates by up to 1.6 samples.
//   More: among the sources with given < w·(s+1), the one with the largest w / (given + 1); among
//     equals, the one with the largest lag, then the first (quota method, Balinski & Young 1975).
// The choice is exact: weights are integers in units of 2^-40 of the largest one.
class Blend {
 public:
  // CHECKs that weights are positive and finite; callers report invalid user input. Their sum is
  // arbitrary.
  explicit Blend(std::span<const double> weights);

  // Continues a blend in which each source has given `given` samples. Call it before the first
  // at(). Earlier samples are the same as in a blend that begins at 0.
  void continue_from(std::span<const int64_t> given);

  struct Pick {
    int source;
    int64_t index;  // number of samples that this source has given before
  };
  // Returns the source of any sample, in any order of calls. The next sample costs O(sources). The
  // first jump to sample s costs O(s · sources) once, about 10 ns per sample, and stores 8 bytes
  // per source every 4,096 samples. With a single source, there is no such cost.
  Pick at(int64_t sample);

  // Returns the number of samples that each source gives among the first `samples`.
  std::vector<int64_t> given(int64_t samples);

 private:
  // A stored state, before the sample `sample`.
  struct Mark {
    int64_t sample;
    std::vector<int64_t> given;
  };
  int choose() const;  // the source of sample next_
  void seek(int64_t sample);

  std::vector<int64_t> weights_;  // in units of 1 / total_
  int64_t total_ = 0;
  int64_t next_ = 0;            // given_ is the state before this sample
  std::vector<int64_t> given_;  // number of samples given, per source
  std::vector<Mark> marks_;     // ascending
};

}  // namespace tessera::data
