// The vector instructions that this machine has, and those to use.
#pragma once

#if defined(ASSAY_AVXVNNI)
#include <cpuid.h>
#endif
#if defined(ASSAY_ARM_KERNELS) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <cstdlib>
#include <cstring>

namespace assay {

enum class Simd { none, neon, avx2, avx512 };

inline Simd best_simd() {
#if defined(ASSAY_X86_KERNELS)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return Simd::avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Simd::avx2;
#elif defined(ASSAY_ARM_KERNELS)
    return Simd::neon;
#endif
    return Simd::none;
}

#if defined(ASSAY_AVXVNNI)
// Asked once: virtual machines take microseconds to answer.
inline bool has_avxvnni() {
    static const bool has = [] {
        unsigned a = 0, b = 0, c = 0, d = 0;
        return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
    }();
    return has;
}
#endif

#if defined(ASSAY_ARM_KERNELS)
// Products of 8-bit numbers, four added up at a time.
inline bool has_neon_dot() {
#if defined(__linux__)
    return (getauxval(AT_HWCAP) >> 20 & 1) != 0;  // HWCAP_ASIMDDP
#else
    return true;  // every ARM processor of Apple has them
#endif
}
#endif

// ASSAY_SIMD=avx512, avx2, neon or none asks for a width; a machine that has less uses what it has.
inline Simd selected_simd() {
    const Simd best = best_simd();
    const char* wish = std::getenv("ASSAY_SIMD");
    if (wish == nullptr) return best;
    const Simd wished = std::strcmp(wish, "none") == 0   ? Simd::none
                        : std::strcmp(wish, "neon") == 0 ? Simd::neon
                        : std::strcmp(wish, "avx2") == 0 ? Simd::avx2
                                                         : Simd::avx512;
    return wished < best ? wished : best;
}

}  // namespace assay
