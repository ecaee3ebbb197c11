// Finds every byte that can end a column: space, tab, line end and the other control characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "hints.hpp"

namespace assay {

constexpr size_t kMask = 64;  // bytes looked at together

struct ByteMask {
    uint64_t stops;  // bit i: byte i is <= 0x20
    uint64_t high;   // non-zero: some byte is >= 0x80, so the text is not ASCII
};

#if defined(__SSE2__)

inline ByteMask mask64(const char* p) {
    ByteMask mask{0, 0};
    const __m128i blank = _mm_set1_epi8(0x20);
    __m128i all = _mm_setzero_si128();
    for (int i = 0; i < 4; ++i) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
        const __m128i stop = _mm_cmpeq_epi8(_mm_min_epu8(bytes, blank), bytes);
        mask.stops |= static_cast<uint64_t>(_mm_movemask_epi8(stop)) << (16 * i);
        all = _mm_or_si128(all, bytes);
    }
    mask.high = static_cast<uint64_t>(_mm_movemask_epi8(all));
    return mask;
}

#else

// Eight bytes at a time in one word. (b & 0x7f) + 0x5f reaches 0x80 exactly when b > 0x20.
inline ByteMask mask64(const char* p) {
    constexpr uint64_t ones = 0x0101010101010101u;
    ByteMask mask{0, 0};
    for (int i = 0; i < 8; ++i) {
        uint64_t word = 0;
        for (int b = 7; b >= 0; --b) word = word << 8 | static_cast<unsigned char>(p[8 * i + b]);
        const uint64_t stop = ~(((word & 0x7f * ones) + 0x5f * ones) | word) & 0x80 * ones;
        mask.stops |= ((stop >> 7) * 0x0102040810204080u >> 56) << (8 * i);
        mask.high |= word & 0x80 * ones;
    }
    return mask;
}

#endif

// Writes the places of all stops to `places` (room for `size` of them) and returns their number;
// `ascii` tells whether every byte is ASCII, as far as `readable` bytes show it.
inline size_t find_stops(const char* text, size_t size, size_t readable, uint32_t* places, bool& ascii) {
    uint32_t* place = places;
    uint64_t high = 0;
    for (size_t at = 0; at < size; at += kMask) {
        char tail[kMask];
        const char* block = text + at;
        if (readable - at < kMask) {
            std::memset(tail, 'x', kMask);
            std::memcpy(tail, block, readable - at);
            block = tail;
        }
        ByteMask mask = mask64(block);
        if (size - at < kMask) mask.stops &= (uint64_t{1} << (size - at)) - 1;
        high |= mask.high;
        for (uint64_t stops = mask.stops; stops != 0; stops &= stops - 1) {
            *place++ = static_cast<uint32_t>(at) + static_cast<uint32_t>(lowest_bit(stops));
        }
    }
    ascii = high == 0;
    return static_cast<size_t>(place - places);
}

}  // namespace assay
