// A save beside a run that goes on. A thread writes the pieces straight from the memory they live
// in, checks them by checksums, brings them to the disk, and puts the checkpoint in its place; so
// the memory must stay as it is until it has been read (docs/decisions/saving.md), and no longer.
//
//   Saving saving(request);            every rank, at the same step
//   …                                  the next step's forward and backward
//   saving.wait_until_read();          before the state changes
//   …
//   if (saving.state() == …)           between steps: do all ranks have written?
//   saving.publish();                  then every rank says so, and rank 0 writes the index
//
// The thread calls nothing of the ranks' world: `publish` is how it learns of the others. With one
// rank it needs nobody to tell it.
#pragma once

#include <cerrno>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"

namespace tessera::checkpoint {

struct SaveRequest {
  Path checkpoints;  // the folder; the checkpoint is <step>/ in it
  CheckpointHeader header;
  std::vector<StateTensor> tensors;  // what this rank owns; their memory outlives the save
  SaveGroup group;
  std::optional<KeepRule> keep = {};          // what may go once it stands
  std::function<void()> before_visible = {};  // on rank 0, right before it stands in its place
  std::function<bool()> make_space = {};      // see CheckpointWriter::on_full_disk
  std::function<double()> now_s = {};         // for seconds()
};

enum class SaveState : uint8_t {
  kWriting,
  kWritten,  // this rank's pieces are on the disk; it waits for publish()
  kOver,
  kFailed,  // wait() says why
};

class Saving {
 public:
  // Makes the folder: collective over the group. Throws Error.
  explicit Saving(SaveRequest request);
  // Of one rank: waits until it is over. Of several: a save that is not published is given up.
  ~Saving();
  Saving(const Saving&) = delete;
  Saving& operator=(const Saving&) = delete;

  int64_t step() const { return request_.header.step; }
  SaveState state() const;
  void wait_until_read();     // returns at once where they have been; also where the save failed
  void wait_until_written();  // until state() is not kWriting
  void publish();             // every rank is at kWritten
  void wait_until_over();     // of a published save: until it is kOver or kFailed
  // Until it is over. Throws the Error that the thread met: it names the step and the place.
  void wait();
  // The message of wait() if the save failed because the state is not finite; otherwise empty.
  std::string non_finite() const;
  double seconds() const;  // from the start until it was over
  // Once it is over: whether a later try would fail too, and a warning about old checkpoints that
  // could not be removed (empty: none).
  bool failure_is_lasting() const;
  bool disk_was_full() const { return failure_code_ == ENOSPC || failure_code_ == EDQUOT; }
  const std::optional<KeepRule>& keep() const { return request_.keep; }
  const std::string& warning() const { return warning_; }

 private:
  void work();
  void write();
  void remove_old();
  void set(SaveState state);
  double now_s() const { return request_.now_s ? request_.now_s() : 0; }

  SaveRequest request_;
  std::optional<CheckpointWriter> writer_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  SaveState state_ = SaveState::kWriting;
  bool read_ = false, may_publish_ = false, given_up_ = false;
  double began_s_ = 0, ended_s_ = 0;
  std::exception_ptr failed_;
  std::string non_finite_;
  int failure_code_ = 0;  // errno of the failure, if it has one; set before kFailed
  std::string warning_;   // set before kOver
  std::thread thread_;
};

// Saves on one rank and waits until the save is complete. Throws as Saving::wait().
void save(const Path& checkpoints, const CheckpointHeader& header,
          std::vector<StateTensor> tensors);

}  // namespace tessera::checkpoint
