// Converts the elements of mapped tensors to another dtype or another order of dimensions, in parts
// of bounded size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

// IEEE 754 binary16. Rounds to nearest, ties to even; overflow becomes infinity, NaN stays NaN.
uint16_t f16_from_float(float x);
float float_from_f16(uint16_t bits);

bool is_float(DType t);  // true for f32, bf16, f16 and f64, which convert() converts to each other

// Converts n elements. Widening is exact; narrowing rounds to nearest even (f64 narrows to 16 bits
// via f32). Equal types are copied. The arrays need not be aligned, and must not overlap.
// CHECKs that the types are equal or both floating.
void convert(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t n);

// ---- Transposes of dense arrays, one contiguous range of the result at a time, so that memory use
// is bounded.

// Let `from` be a row-major array of the extents `shape`, and P the array with
//   P[i_0, …, i_n] = from[j_0, …, j_n],  j_axes[k] = i_k     (numpy's transpose(axes)).
// Writes the elements [first, first + count) of P, in row-major order, to `out`.
void copy_permuted(const std::byte* from, const Shape& shape, std::span<const int> axes,
                   int64_t element_bytes, int64_t first, int64_t count, std::byte* out);

// ---- Transposition and conversion while a piece is written.

// Returns a function that fills with elements of from.transpose(axes), converted to `to_type`.
// `from`, an array of `shape` and `from_type`, must outlive that function and need not be aligned.
FillPiece transposed(std::span<const std::byte> from, DType from_type, const Shape& shape,
                     std::vector<int> axes, DType to_type);

// Fills with several one after another, of `elements` elements each, which have `bytes` bytes in
// what is filled.
FillPiece joined(std::vector<FillPiece> parts, std::vector<int64_t> elements, int64_t bytes);

// ---- Memory of mapped files.

// Releases the pages that are entirely inside these bytes of a mapped file. The next access reads
// them from the file again. Bounds the resident memory of passes over large files.
void release_pages(std::span<const std::byte> mapped);

}  // namespace tessera::checkpoint
