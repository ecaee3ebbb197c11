// The coarse kernels for NEON with dot products: 12 queries × 8 documents at a time. Both factors are
// signed there, so the 128 that documents' codes are raised by is taken off as they are loaded. There are no
// products of 16 bits: NEON does as many of them in an instruction as of float32.
#include <arm_neon.h>

#include "search/coarse_scan.hpp"

namespace assay {

namespace {

struct NeonDot {
    using Vec = float32x4_t;
    using Sums = int32x4_t;
    static constexpr size_t width = 4, rows = 12, steps_in_16_bits = 0;
    static constexpr bool raised = false;
    static constexpr CoarseLimits query_limits = kNoLimits;
    static Vec load(const float* at) { return vld1q_f32(at); }
    static Vec spread(float x) { return vdupq_n_f32(x); }
    static Vec multiply(Vec a, Vec b) { return vmulq_f32(a, b); }
    static Vec multiply_add(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
    static Vec to_float(const int32_t* sums) { return vcvtq_f32_s32(vld1q_s32(sums)); }
    static Vec larger(Vec a, Vec b) { return vmaxq_f32(a, b); }
    static float largest(Vec a) { return vmaxvq_f32(a); }
    static uint32_t at_least(Vec a, Vec b) {
        constexpr uint32_t bits[4] = {1, 2, 4, 8};
        return vaddvq_u32(vandq_u32(vcgeq_f32(a, b), vld1q_u32(bits)));
    }

    struct Fours {
        int8x16_t of[rows / 4];
    };
    static Sums begin(int32_t start) { return vdupq_n_s32(start); }
    static int8x16_t codes(const uint8_t* at) { return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(at), vdupq_n_u8(128))); }
    static Fours fours(const uint8_t* queries) { return {{four_rows(queries), four_rows(queries + 16), four_rows(queries + 32)}}; }
    static int8x16_t four_rows(const uint8_t* queries) { return vreinterpretq_s8_u8(vld1q_u8(queries)); }
    template <size_t row>
    static Sums add(Sums sums, int8x16_t codes, const Fours& fours) {
        return vdotq_laneq_s32(sums, codes, fours.of[row / 4], row % 4);
    }
    static void put(Sums wide, int32_t* sums) { vst1q_s32(sums, wide); }
};

}  // namespace

const CoarseKernels& neon_coarse_kernels() { return kernels_of<NeonDot, void>(); }

}  // namespace assay
