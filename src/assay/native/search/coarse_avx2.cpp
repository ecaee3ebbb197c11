// The coarse kernels for AVX2. Products of pairs are summed in 16 bits, wrapping round, and widened
// after every 8 steps: limits on the codes (CoarseLimits) keep the true sums within 16 bits, so that
// they come out of it whole. Products of 16 bits are summed in 32.
#include "search/coarse_avx2_floats.hpp"

namespace assay {

namespace {

struct Avx2 : Avx2Floats {
    static constexpr size_t steps_in_16_bits = 8;
    static constexpr CoarseLimits query_limits = kNarrowQueryLimits;

    template <size_t row>
    static Sums add(Sums sums, __m256i codes, const int32_t* fours) {
        sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes, _mm256_set1_epi32(fours[row])));
        asm volatile("" : "+x"(sums));  // one after the other, or there are not registers enough for the products
        return sums;
    }
    static void put(Sums narrow, int32_t* sums) {
        __m256i* at = reinterpret_cast<__m256i*>(sums);
        _mm256_store_si256(at, _mm256_add_epi32(_mm256_madd_epi16(narrow, _mm256_set1_epi16(1)), _mm256_load_si256(at)));
    }
};

struct Avx2Wide : Avx2Floats {
    static constexpr size_t steps_in_16_bits = 0;

    template <size_t row>
    static Sums add(Sums sums, __m256i codes, const int32_t* pairs) {
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(codes, _mm256_set1_epi32(pairs[row])));
        asm volatile("" : "+x"(sums));  // as above
        return sums;
    }
    static void put(Sums wide, int32_t* sums) { _mm256_store_si256(reinterpret_cast<__m256i*>(sums), wide); }
};

}  // namespace

const CoarseKernels& avx2_coarse_kernels() { return kernels_of<Avx2, Avx2Wide>(); }

}  // namespace assay
