// Visits all chunks, jumping: documents sorted by score would otherwise all have to be kept once.
#pragma once

#include <cstddef>

namespace {

struct ChunkOrder {
    size_t count, stride, at = 0;

    explicit ChunkOrder(size_t n) : count(n), stride(n / 2 + n / 8 + 1) {
        while (common_divisor(stride, count) != 1) ++stride;
    }
    size_t next() {
        const size_t here = at;
        at = (at + stride) % count;
        return here;
    }
    static size_t common_divisor(size_t a, size_t b) {
        while (b != 0) {
            const size_t rest = a % b;
            a = b;
            b = rest;
        }
        return a;
    }
};

}  // namespace
