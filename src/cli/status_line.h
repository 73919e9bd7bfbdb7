// The progress of a long command on standard error (standard output is for the result): on a
// terminal, one line that is rewritten five times per second; otherwise a line every 30 s.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::cli {

class StatusLine {
 public:
  StatusLine();
  ~StatusLine();  // erases the line
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Returns whether a line may be shown now. Never true in the first second off a terminal, so that
  // short commands print none.
  bool is_due() const;
  void show(const std::string& line);
  void erase();            // erases the line on a terminal, so that results can be printed
  double seconds() const;  // since construction

 private:
  bool terminal_, shown_ = false;
  double began_s_, next_s_ = 0;
};

// A status line with the share of the current input that is done, and the time that is left.
class ShareLine {
 public:
  // Shows `done` of `all` items (samples, continuations, answers, bytes; all = 0: unknown) if a
  // line is due. Erases the line when all are done. A new input begins where `done` decreases.
  void show(int64_t done, int64_t all);

 private:
  StatusLine status_;
  int64_t first_ = 0, last_ = 0;  // items done at the first and the last call for this input
  double began_s_ = 0;            // time of the first call
};

}  // namespace tessera::cli
