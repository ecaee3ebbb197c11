// Extensions of GCC and Clang, with a substitute for other compilers.
#pragma once

#include <cstdint>

#if defined(__GNUC__) && !defined(ASSAY_NO_EXTENSIONS)
#define ASSAY_INLINE inline __attribute__((always_inline))
#else
#define ASSAY_INLINE inline
#endif

namespace assay {

// This memory will be needed soon. The empty instruction is an effect: without one, GCC takes a function that
// only does this for a pure one, and drops its calls.
inline void prefetch(const void* address) {
#if defined(__GNUC__) && !defined(ASSAY_NO_EXTENSIONS)
    __builtin_prefetch(address);
    __asm__ volatile("" : : "r"(address));
#else
    (void)address;
#endif
}

// The number of the lowest bit that is set; there must be one.
inline int lowest_bit(uint64_t word) {
#if defined(__GNUC__) && !defined(ASSAY_NO_EXTENSIONS)
    return __builtin_ctzll(word);
#else
    int bit = 0;
    while ((word >> bit & 1) == 0) ++bit;
    return bit;
#endif
}

}  // namespace assay
