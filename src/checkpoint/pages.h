// Memory that mapped files take.
#pragma once

#include <cstddef>
#include <span>

namespace tessera {

// Gives the pages that lie wholly inside of a mapped file's bytes back to the system. They come
// again from the file when they are next read. Keeps a stream over large files small.
void release_pages(std::span<const std::byte> mapped);

}  // namespace tessera
