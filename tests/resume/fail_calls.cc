// A library to preload (LD_PRELOAD) that makes system calls fail on some paths: a full disk, an I/O
// error, a folder that cannot be changed. scripts/check_faults.py and tests of the program use it.
//
//   FAIL_PATH    only calls on absolute paths that contain this text fail
//   FAIL_CALLS   names of the calls that fail, such as "write,fsync"; any of write, fsync,
//                fdatasync, fallocate, mkdir, open, create (open with O_CREAT), rename, unlink
//   FAIL_ERRNO   their errno, a number
//   FAIL_WHILE   they fail only while this file exists; not set: always
//   FAIL_RANK    only in that rank of Open MPI; not set: in all
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class F>
F next(const char* name, F) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

bool is_asked_for(const char* call) {
  const char* calls = std::getenv("FAIL_CALLS");
  const size_t n = std::strlen(call);
  for (const char* at = calls; at != nullptr && (at = std::strstr(at, call)) != nullptr; ++at)
    if ((at == calls || at[-1] == ',') && (at[n] == ',' || at[n] == 0)) return true;
  return false;
}

bool fails(const char* call, const char* path) {
  const char *wanted = std::getenv("FAIL_PATH"), *file = std::getenv("FAIL_WHILE");
  const char *rank = std::getenv("FAIL_RANK"), *own = std::getenv("OMPI_COMM_WORLD_RANK");
  if (wanted == nullptr || path == nullptr || std::strstr(path, wanted) == nullptr) return false;
  if (!is_asked_for(call)) return false;
  if (rank != nullptr && (own == nullptr || std::strcmp(rank, own) != 0)) return false;
  if (file != nullptr && ::access(file, F_OK) != 0) return false;
  const char* code = std::getenv("FAIL_ERRNO");
  errno = code != nullptr ? std::atoi(code) : ENOSPC;
  return true;
}

// Relative paths are those of the working folder.
bool fails_at(const char* call, const char* path) {
  char folder[4096], whole[8192];
  if (path == nullptr || path[0] == '/' || ::getcwd(folder, sizeof folder) == nullptr)
    return fails(call, path);
  std::snprintf(whole, sizeof whole, "%s/%s", folder, path);
  return fails(call, whole);
}

bool fails_on(const char* call, int fd) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = 0;
  return fails(call, path);
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = next("write", &::write);
  return fails_on("write", fd) ? -1 : real(fd, data, bytes);
}

int fsync(int fd) {
  static const auto real = next("fsync", &::fsync);
  return fails_on("fsync", fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
  static const auto real = next("fdatasync", &::fdatasync);
  return fails_on("fdatasync", fd) ? -1 : real(fd);
}

int fallocate(int fd, int mode, off_t from, off_t bytes) {
  static const auto real = next("fallocate", &::fallocate);
  return fails_on("fallocate", fd) ? -1 : real(fd, mode, from, bytes);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next("mkdir", &::mkdir);
  return fails_at("mkdir", path) ? -1 : real(path, mode);
}

int open(const char* path, int flags, ...) {
  static const auto real = next("open", &::open);
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : mode_t{0};
  va_end(more);
  if ((flags & O_CREAT) != 0 && fails_at("create", path)) return -1;
  if (fails_at("open", path)) return -1;
  return real(path, flags, mode);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next("rename", &::rename);
  return fails_at("rename", from) ? -1 : real(from, to);
}

int unlink(const char* path) noexcept {
  static const auto real = next("unlink", &::unlink);
  return fails_at("unlink", path) ? -1 : real(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto real = next("unlinkat", &::unlinkat);
  const bool failed = folder == AT_FDCWD ? fails_at("unlink", path) : fails_on("unlink", folder);
  return failed ? -1 : real(folder, path, flags);
}

}  // extern "C"
