#include "base/print.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace tessera {

void print_to(std::FILE* file, std::string_view text) noexcept {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  if (!written) std::clearerr(file);
}

bool reader_is_gone(std::FILE* file) noexcept {
  pollfd out = {::fileno(file), POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

void open_standard_files() noexcept {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is `fd`, since those below are open.
    if (::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0) return;
  }
}

}  // namespace tessera
