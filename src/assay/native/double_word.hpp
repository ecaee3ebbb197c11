// Numbers of 128 bits, where the compiler has none of its own: as much of them as exact sums need.
#pragma once

#include <cstdint>

namespace assay {

#if defined(__SIZEOF_INT128__) && !defined(ASSAY_NO_EXTENSIONS)
__extension__ typedef unsigned __int128 DoubleWord;
#else
struct DoubleWord {
    uint64_t low, high;

    DoubleWord(uint64_t number) : low(number), high(0) {}
    explicit operator uint64_t() const { return low; }

    DoubleWord& operator+=(const DoubleWord& other) {
        low += other.low;
        high += other.high + (low < other.low ? 1 : 0);
        return *this;
    }
    DoubleWord& operator>>=(unsigned bits) {  // at most 64
        low = bits == 64 ? high : bits == 0 ? low : low >> bits | high << (64 - bits);
        high = bits == 64 ? 0 : high >> bits;
        return *this;
    }
    friend DoubleWord operator+(DoubleWord a, const DoubleWord& b) { return a += b; }
    friend DoubleWord operator>>(DoubleWord a, unsigned bits) { return a >>= bits; }
    friend bool operator!=(const DoubleWord& a, uint64_t b) { return a.high != 0 || a.low != b; }
    friend bool operator<(uint64_t a, const DoubleWord& b) { return b.high != 0 || a < b.low; }

    // Of two numbers of 64 bits.
    friend DoubleWord operator*(const DoubleWord& a, uint64_t b) {
        const uint64_t a_low = a.low & 0xffffffff, a_high = a.low >> 32, b_low = b & 0xffffffff, b_high = b >> 32;
        const uint64_t first = a_low * b_low, middle = a_high * b_low + (first >> 32), other = a_low * b_high + (middle & 0xffffffff);
        DoubleWord product(other << 32 | (first & 0xffffffff));
        product.high = a_high * b_high + (middle >> 32) + (other >> 32);
        return product;
    }
};
#endif

}  // namespace assay
