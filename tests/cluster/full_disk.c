// Preloaded, it makes the disk full for this process wherever checkpoints go.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int of_checkpoint(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t n = readlink(link, path, sizeof(path) - 1);
  path[n < 0 ? 0 : n] = 0;
  return strstr(path, "/checkpoints/") != NULL;
}

ssize_t write(int file, const void* data, size_t bytes) {
  static ssize_t (*real)(int, const void*, size_t);
  if (!real) real = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  if (!of_checkpoint(file)) return real(file, data, bytes);
  errno = ENOSPC;
  return -1;
}
