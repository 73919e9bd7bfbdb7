// A save on its own thread, while training continues.
//
// The state is kWriting until this rank's pieces are on disk, then kWritten until publish() is
// called, then kOver. It can become kFailed at any time. Between steps, the caller checks whether
// all ranks are at kWritten, and then calls publish(). `read_` becomes true when the tensors have
// been copied to the file's buffers: from then on the next update may overwrite them, while the
// thread flushes the file to disk. The thread calls no collective.
#include "checkpoint/async_save.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/owner_lock.h"

namespace tessera::checkpoint {
namespace {

bool is_full(const Error& error) {
  const auto* failed = dynamic_cast<const FileError*>(&error);
  return failed != nullptr && (failed->code() == ENOSPC || failed->code() == EDQUOT);
}

std::string advice_for(const Error& error) {
  const auto* failed = dynamic_cast<const FileError*>(&error);
  if (is_full(error)) return " Free disk space, or keep fewer checkpoints (checkpoint.keep).";
  if (failed == nullptr || failed->code() != EFBIG) return "";
  struct rlimit most {};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY)
    return " The file system does not support files of this size. Choose another run.directory.";
  return fmt::format(
      " Files of this process may have at most {} bytes. Raise the limit (ulimit -f).",
      most.rlim_cur);
}

// Returns the error with the step, and with advice for a full disk or a limit on file sizes.
Error told(int64_t step, const Error& error) {
  return Error("step {} could not be saved: {} Earlier checkpoints are unchanged.{}", step,
               sentence(error.what()), advice_for(error));
}

NumericError not_saved(int64_t step, const NumericError& error) {
  return NumericError("the state after step {} is not saved: {}", step, error.what());
}

// Returns true for errors that waiting does not fix: permissions, names, read-only file systems. A
// full disk may have space at the next save, and an unreachable server may be back.
bool is_lasting(int code) {
  static constexpr std::array kLasting = {EACCES,       EFBIG,   EISDIR, ELOOP,
                                          ENAMETOOLONG, ENOTDIR, EPERM,  EROFS};
  return std::find(kLasting.begin(), kLasting.end(), code) != kLasting.end();
}

}  // namespace

AsyncSave::AsyncSave(SaveRequest request)
    : request_(std::move(request)), may_publish_(request_.group.ranks == 1), began_s_(now_s()) {
  try {
    writer_.emplace(request_.checkpoints / std::to_string(step()), request_.group);
  } catch (const Error& error) {
    throw told(step(), error);
  }
  writer_->on_full_disk(request_.make_space);
  thread_ = std::thread([this] { work(); });
}

AsyncSave::~AsyncSave() {
  {
    const std::lock_guard lock(mutex_);
    // With one rank, may_publish_ is set from the start, and the destructor waits for the save to
    // finish. With several, publish() may never be called, so an unpublished save is abandoned.
    given_up_ = !may_publish_;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

SaveState AsyncSave::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void AsyncSave::set(SaveState state) {
  {
    const std::lock_guard lock(mutex_);
    state_ = state;
    // Set at every end, also after a failure, so that wait_until_read() always returns.
    read_ = true;
    if (state == SaveState::kOver || state == SaveState::kFailed) ended_s_ = now_s();
  }
  changed_.notify_all();
}

void AsyncSave::work() {
  try {
    write();
    set(SaveState::kWritten);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return may_publish_ || given_up_; });
    if (given_up_) return;
    lock.unlock();
    if (request_.group.rank == 0) {
      if (request_.before_visible) request_.before_visible();
      writer_->publish(request_.header);
      remove_old();
    }
    set(SaveState::kOver);
  } catch (const NumericError& error) {
    // The results are stored before set() locks the mutex, so a thread that sees kFailed sees them
    // too.
    const NumericError failure = not_saved(step(), error);
    non_finite_ = failure.what();
    failed_ = std::make_exception_ptr(failure);
  } catch (const FileError& error) {
    failure_code_ = error.code();
    failed_ = std::make_exception_ptr(told(step(), error));
  } catch (const Error& error) {
    if (dynamic_cast<const LostOwnership*>(&error) != nullptr) failure_code_ = EPERM;
    failed_ = std::make_exception_ptr(told(step(), error));
  } catch (...) {
    failed_ = std::current_exception();
  }
  if (failed_) set(SaveState::kFailed);
}

// Prunes old checkpoints. A failure is only a warning, since the save itself is complete.
void AsyncSave::remove_old() {
  if (!request_.keep) return;
  try {
    prune(request_.checkpoints, *request_.keep);
  } catch (const std::exception& error) {
    warning_ = fmt::format("an old checkpoint could not be removed: {}", error.what());
  }
}

void AsyncSave::write() {
  for (const StateTensor& t : request_.tensors) {
    writer_->add(t);
    const std::lock_guard lock(mutex_);
    // Checked after each tensor, so that an abandoned save stops soon.
    if (given_up_) return;
  }
  {
    const std::lock_guard lock(mutex_);
    read_ = true;
  }
  changed_.notify_all();
  writer_->finish();
}

void AsyncSave::wait_until_read() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return read_; });
}

void AsyncSave::wait_until_written() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != SaveState::kWriting; });
}

void AsyncSave::wait_until_over() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ == SaveState::kOver || state_ == SaveState::kFailed; });
}

void AsyncSave::publish() {
  {
    const std::lock_guard lock(mutex_);
    may_publish_ = true;
  }
  changed_.notify_all();
}

void AsyncSave::wait() {
  // After join() there is no other thread, so failed_ needs no lock.
  if (thread_.joinable()) thread_.join();
  if (failed_) std::rethrow_exception(failed_);
}

std::string AsyncSave::non_finite() const {
  const std::lock_guard lock(mutex_);
  return state_ == SaveState::kFailed ? non_finite_ : "";
}

bool AsyncSave::failure_is_lasting() const { return is_lasting(failure_code_); }

double AsyncSave::seconds() const {
  const std::lock_guard lock(mutex_);
  return ended_s_ - began_s_;
}

void save(const Path& checkpoints, const CheckpointHeader& header,
          std::vector<StateTensor> tensors) {
  AsyncSave({checkpoints, header, std::move(tensors), {}}).wait();
}

}  // namespace tessera::checkpoint
