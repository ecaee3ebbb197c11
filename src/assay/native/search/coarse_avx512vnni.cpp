// The coarse kernels for AVX-512 with VNNI: 14 queries × 32 documents at a time.
#include <immintrin.h>

#include "search/coarse_scan.hpp"

namespace assay {

namespace {

struct Avx512Vnni {
    using Vec = __m512;
    using Sums = __m512i;
    static constexpr size_t width = 16, rows = 14, steps_in_16_bits = 0;
    static constexpr bool raised = true;
    static constexpr CoarseLimits query_limits = kNoLimits;
    static Vec load(const float* at) { return _mm512_loadu_ps(at); }
    static Vec spread(float x) { return _mm512_set1_ps(x); }
    static Vec multiply(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
    static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
    static Vec to_float(const int32_t* sums) { return _mm512_cvtepi32_ps(_mm512_load_si512(sums)); }
    static Vec larger(Vec a, Vec b) { return _mm512_max_ps(a, b); }
    static float largest(Vec a) { return _mm512_reduce_max_ps(a); }
    static uint32_t at_least(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }

    static Sums begin(int32_t start) { return _mm512_set1_epi32(start); }
    static __m512i codes(const uint8_t* at) { return _mm512_loadu_si512(at); }
    static const int32_t* fours(const uint8_t* queries) { return reinterpret_cast<const int32_t*>(queries); }
    template <size_t row>
    static Sums add(Sums sums, __m512i codes, const int32_t* fours) {
        return _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(fours[row]));
    }
    static void put(Sums wide, int32_t* sums) { _mm512_store_si512(sums, wide); }
};

struct Avx512VnniWide : Avx512Vnni {
    template <size_t row>
    static Sums add(Sums sums, __m512i codes, const int32_t* pairs) {
        return _mm512_dpwssd_epi32(sums, codes, _mm512_set1_epi32(pairs[row]));
    }
};

}  // namespace

const CoarseKernels& avx512vnni_coarse_kernels() { return kernels_of<Avx512Vnni, Avx512VnniWide>(); }

}  // namespace assay
