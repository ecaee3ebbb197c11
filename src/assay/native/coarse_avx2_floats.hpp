// The compares of the coarse kernels for eight float32 at a time.
#pragma once

#include "coarse_scan.hpp"

namespace {

struct Avx2Floats {
    using Vec = __m256;
    static constexpr size_t width = 8;
    static Vec load(const float* at) { return _mm256_loadu_ps(at); }
    static Vec spread(float x) { return _mm256_set1_ps(x); }
    static Vec multiply(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
    static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
    static Vec to_float(const int32_t* sums) { return _mm256_cvtepi32_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(sums))); }
    static uint32_t at_least(Vec a, Vec b) { return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ))); }
};

inline __m256i load_codes(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }

inline void store_sums(int32_t* at, __m256i sums) { _mm256_store_si256(reinterpret_cast<__m256i*>(at), sums); }

}  // namespace
