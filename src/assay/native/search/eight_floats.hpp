// Eight float32 that are treated alike, and squares of them turned over. The compiler knows how to
// add and multiply them on every machine; everything is in an unnamed namespace, because each source
// that includes this is compiled for other vector instructions.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstring>

#include "exact/vector_types.hpp"

#if defined(ASSAY_EXTENSIONS)
#pragma GCC diagnostic ignored "-Wpsabi"  // no vector leaves these sources
#endif

namespace {

constexpr size_t kTogether = 8;
using Eight = VectorOf<float, kTogether>::type;

inline Eight eight_at(const float* at) {
    Eight lanes;
    std::memcpy(&lanes, at, sizeof lanes);
    return lanes;
}

inline void put_eight(float* at, Eight lanes) { std::memcpy(at, &lanes, sizeof lanes); }

inline Eight larger(Eight a, Eight b) {
#if defined(ASSAY_EXTENSIONS)
    return a > b ? a : b;
#else
    for (size_t i = 0; i < kTogether; ++i) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
#endif
}

inline float largest(Eight lanes) {
    float most = 0.0f;
    for (size_t i = 0; i < kTogether; ++i) most = lanes[i] > most ? lanes[i] : most;
    return most;
}

inline float sum_of(Eight lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// a · b + c, rounded once or twice.
inline Eight multiply_add(Eight a, Eight b, Eight c) {
#if defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

// Eight rows become eight columns.
ASSAY_ALWAYS_INLINE void transpose(Eight* a) {
    Eight b[kTogether];
#if defined(__AVX2__)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        a[4 * i] = _mm256_shuffle_ps(b[4 * i], b[4 * i + 2], 0x44);
        a[4 * i + 1] = _mm256_shuffle_ps(b[4 * i], b[4 * i + 2], 0xee);
        a[4 * i + 2] = _mm256_shuffle_ps(b[4 * i + 1], b[4 * i + 3], 0x44);
        a[4 * i + 3] = _mm256_shuffle_ps(b[4 * i + 1], b[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        b[i] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x20);
        b[i + 4] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x31);
    }
#else
    for (size_t i = 0; i < kTogether; ++i) {
        for (size_t j = 0; j < kTogether; ++j) b[i][j] = a[j][i];
    }
#endif
#pragma GCC unroll 8
    for (size_t i = 0; i < kTogether; ++i) a[i] = b[i];
}

}  // namespace
