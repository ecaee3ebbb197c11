// Which vector instructions this machine has, and which of them to use.
#pragma once

#if defined(ASSAY_AVXVNNI)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <cstring>

namespace assay {

enum class Simd { none, avx2, avx512 };

inline Simd best_simd() {
#if defined(ASSAY_X86_KERNELS)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return Simd::avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Simd::avx2;
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

// ASSAY_SIMD=avx512, avx2 or none asks for a width; a machine that has less uses what it has.
inline Simd chosen_simd() {
    const Simd best = best_simd();
    const char* wish = std::getenv("ASSAY_SIMD");
    if (wish == nullptr) return best;
    const Simd wished = std::strcmp(wish, "none") == 0   ? Simd::none
                        : std::strcmp(wish, "avx2") == 0 ? Simd::avx2
                                                         : Simd::avx512;
    return wished < best ? wished : best;
}

}  // namespace assay
