// A library to preload (LD_PRELOAD) that kills its process with SIGKILL right before the n-th call
// that changes a file system under one folder: what a power cut or `kill -9` in the middle of a
// save does, at every place in turn. scripts/check_resume.py uses it.
//
//   KILL_FOLDER   only calls on paths that contain this text count
//   KILL_AT       n, from 1; 0: never
//   KILL_COUNT    a file that gets one byte a counted call, so that the caller learns how many
//                 there are; it is appended to by the system call itself
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls = 0;

bool is_watched(const char* path) {
  const char* folder = std::getenv("KILL_FOLDER");
  return folder && *folder && path && std::strstr(path, folder);
}

bool is_watched(int fd) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = 0;
  return is_watched(path);
}

void count(bool watched) {
  if (!watched) return;
  if (const char* file = std::getenv("KILL_COUNT")) {
    const long fd = ::syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0) {
      ::syscall(SYS_write, fd, ".", 1);
      ::syscall(SYS_close, fd);
    }
  }
  const char* at = std::getenv("KILL_AT");
  if (++calls == (at ? std::atol(at) : 0)) ::raise(SIGKILL);
}

template <class F>
F next(const char* name, F) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = next("write", &::write);
  if (fd > 2) count(is_watched(fd));
  return real(fd, data, bytes);
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  static const auto real = next("pwrite", &::pwrite);
  count(is_watched(fd));
  return real(fd, data, bytes, offset);
}

int fsync(int fd) {
  static const auto real = next("fsync", &::fsync);
  count(is_watched(fd));
  return real(fd);
}

int fdatasync(int fd) {
  static const auto real = next("fdatasync", &::fdatasync);
  count(is_watched(fd));
  return real(fd);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next("rename", &::rename);
  count(is_watched(from) || is_watched(to));
  return real(from, to);
}

int unlink(const char* path) noexcept {
  static const auto real = next("unlink", &::unlink);
  count(is_watched(path));
  return real(path);
}

int remove(const char* path) noexcept {
  static const auto real = next("remove", &::remove);
  count(is_watched(path));
  return real(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto real = next("unlinkat", &::unlinkat);
  count(is_watched(path) || (folder != AT_FDCWD && is_watched(folder)));
  return real(folder, path, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next("mkdir", &::mkdir);
  count(is_watched(path));
  return real(path, mode);
}

}  // extern "C"
