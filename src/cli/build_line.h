// The progress of `tessera data build`: on a terminal a line that is rewritten, elsewhere a line
// every 30 s.
#pragma once

#include <string>

#include "data/dataset_builder.h"

namespace tessera {

std::string human_bytes(int64_t n);  // "1.23 GB"
double share(int64_t a, int64_t b);  // a / b; 0 if b is 0

class BuildLine {
 public:
  BuildLine();
  ~BuildLine();  // erases the line of a terminal
  BuildLine(const BuildLine&) = delete;
  BuildLine& operator=(const BuildLine&) = delete;

  void show(const BuildProgress& p);
  double seconds() const;  // since it was made

 private:
  bool terminal_, shown_ = false;
  double began_s_, next_s_ = 0;
};

}  // namespace tessera
