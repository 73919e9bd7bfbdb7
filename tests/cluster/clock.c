// Preloaded, it sets this process's wall clock 35 seconds ahead.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec* t) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(id, t);
  if (id == CLOCK_REALTIME) t->tv_sec += 35;
  return result;
}
