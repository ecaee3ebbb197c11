// The coarse kernels for AVX-VNNI, which sums in 32 bits.
#include "search/coarse_avx2_floats.hpp"

namespace assay {

namespace {

struct AvxVnni : Avx2Floats {
    static constexpr size_t steps_in_16_bits = 0;
    static constexpr CoarseLimits query_limits = kNoLimits;

    template <size_t row>
    static Sums add(Sums sums, __m256i codes, const int32_t* fours) {
        sums = _mm256_dpbusd_avx_epi32(sums, codes, _mm256_set1_epi32(fours[row]));
        asm volatile("" : "+x"(sums));  // else the compiler stores each sum at every step
        return sums;
    }
    static void put(Sums wide, int32_t* sums) { _mm256_store_si256(reinterpret_cast<__m256i*>(sums), wide); }
};

struct AvxVnniWide : AvxVnni {
    template <size_t row>
    static Sums add(Sums sums, __m256i codes, const int32_t* pairs) {
        return _mm256_dpwssd_avx_epi32(sums, codes, _mm256_set1_epi32(pairs[row]));
    }
};

}  // namespace

const CoarseKernels& avxvnni_coarse_kernels() { return kernels_of<AvxVnni, AvxVnniWide>(); }

}  // namespace assay
