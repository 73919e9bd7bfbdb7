// Saves a checkpoint while training continues. A thread writes the pieces directly from the memory
// of the state, computes their checksums, flushes them to disk and publishes the checkpoint. So the
// state must not change until the thread has read it (docs/decisions/saving.md).
//
//   AsyncSave saving(request);         every rank, at the same step
//   …                                  the next step's forward and backward
//   saving.wait_until_read();          before the state changes
//   …
//   if (saving.state() == …)           between steps: are all ranks at kWritten?
//   saving.publish();                  if so, on every rank; rank 0 then writes the index
//
// The thread does not communicate with other ranks: publish() informs it that all of them have
// written. With one rank, publish() is not needed.
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
  Path checkpoints;  // the checkpoints folder; the new checkpoint is <step>/ in it
  CheckpointHeader header;
  std::vector<StateTensor> tensors;  // pieces that this rank owns; their memory outlives the save
  SaveGroup group;
  std::optional<KeepRule> keep = {};          // if given, rank 0 prunes after the save
  std::function<void()> before_visible = {};  // called on rank 0 right before the final rename
  std::function<bool()> make_space = {};      // see CheckpointWriter::on_full_disk
  std::function<double()> now_s = {};         // clock for seconds()
};

enum class SaveState : uint8_t {
  kWriting,
  kWritten,  // this rank's pieces are on disk; the thread waits for publish()
  kOver,     // complete
  kFailed,   // wait() throws the reason
};

class AsyncSave {
 public:
  // Collective over the group: creates the temporary folder and starts the thread. Throws Error.
  explicit AsyncSave(SaveRequest request);
  // With one rank, waits until the save is complete. With several, abandons a save that has not
  // been published.
  ~AsyncSave();
  AsyncSave(const AsyncSave&) = delete;
  AsyncSave& operator=(const AsyncSave&) = delete;

  int64_t step() const { return request_.header.step; }
  SaveState state() const;
  void wait_until_read();     // until the tensors have been read or the save has failed
  void wait_until_written();  // until state() is not kWriting
  void publish();             // call when every rank is at kWritten
  void wait_until_over();     // until a published save is kOver or kFailed
  // Waits for the thread to end. Throws the Error of a failed save, with the step and the path.
  void wait();
  // The message of wait() if the save failed because the state is not finite; otherwise empty.
  std::string non_finite() const;
  double seconds() const;  // time from the start to the end of the save
  // The following are valid after the end. Returns true if a later save would fail as well.
  bool failure_is_lasting() const;
  bool disk_was_full() const { return failure_code_ == ENOSPC || failure_code_ == EDQUOT; }
  const std::optional<KeepRule>& keep() const { return request_.keep; }
  // The reason why old checkpoints could not be removed; empty: there was no problem.
  const std::string& warning() const { return warning_; }

 private:
  void work();
  void write();
  void remove_old();
  void set(SaveState state);
  double now_s() const { return request_.now_s ? request_.now_s() : 0; }

  SaveRequest request_;
  std::optional<CheckpointWriter> writer_;
  mutable std::mutex mutex_;  // guards the members after it
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

// Saves on one rank and waits until the save is complete. Throws as AsyncSave::wait().
void save(const Path& checkpoints, const CheckpointHeader& header,
          std::vector<StateTensor> tensors);

}  // namespace tessera::checkpoint
