// Rows as they are stored, widened to float32, which is exact for every type here. Everything is in
// an unnamed namespace, because sources with other vector instructions include it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

#include "search/kernels.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace {

using assay::ElementType;

constexpr size_t kElementBytes[] = {4, 2, 2, 1, 1, 2, 2};

inline float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The exponent of a half is moved by a product, which is exact below the normal range too; all ones
// in it stay all ones.
inline float half_to_float(uint16_t half) {
    const uint32_t wide = half, size = bits_of(from_bits((wide & 0x7fff) << 13) * 0x1p112f);
    const uint32_t no_number = (wide & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
    return from_bits(size | no_number | (wide & 0x8000) << 16);
}

inline void widen_halves(const uint16_t* from, size_t count, float* to) {
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
    }
#endif
    for (; i < count; ++i) to[i] = half_to_float(from[i]);
}

template <class T>
inline void widen_integers(const T* from, size_t count, float* to) {
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

inline void widen(const void* from, ElementType element_type, size_t count, float* to) {
    switch (element_type) {
        case ElementType::wide: std::memcpy(to, from, count * sizeof(float)); break;
        case ElementType::float16: widen_halves(static_cast<const uint16_t*>(from), count, to); break;
        case ElementType::bfloat16:
            for (size_t i = 0; i < count; ++i) to[i] = from_bits(static_cast<uint32_t>(static_cast<const uint16_t*>(from)[i]) << 16);
            break;
        case ElementType::int8: widen_integers(static_cast<const int8_t*>(from), count, to); break;
        case ElementType::uint8: widen_integers(static_cast<const uint8_t*>(from), count, to); break;
        case ElementType::int16: widen_integers(static_cast<const int16_t*>(from), count, to); break;
        case ElementType::uint16: widen_integers(static_cast<const uint16_t*>(from), count, to); break;
    }
}

// Some rows from `row` on, where they lie or widened into `room`.
inline const float* widened_rows(const void* rows, ElementType element_type, size_t row, size_t count, size_t columns, float* room) {
    const char* at = static_cast<const char*>(rows) + row * columns * kElementBytes[static_cast<size_t>(element_type)];
    if (element_type == ElementType::wide) return reinterpret_cast<const float*>(at);
    widen(at, element_type, count * columns, room);
    return room;
}

// Memory that is given back at the end of a block.
class Scratch {
public:
    explicit Scratch(size_t floats) : memory_(std::malloc(floats * sizeof(float) + kAligned)) {
        if (memory_ == nullptr) throw std::bad_alloc();
        const auto address = reinterpret_cast<uintptr_t>(memory_);
        data_ = reinterpret_cast<float*>((address + kAligned - 1) / kAligned * kAligned);
    }
    ~Scratch() { std::free(memory_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    float* data() const { return data_; }

private:
    static constexpr size_t kAligned = 64;

    void* memory_;
    float* data_;
};

}  // namespace
