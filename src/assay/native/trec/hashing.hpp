// Hash, equality and cleanness of short byte strings. The hash, in the manner of wyhash, decides only where an id
// sits in a table, never the order of a result.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace assay {

inline uint64_t load8(const char* p) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    return word;
}

inline uint64_t load4(const char* p) {
    uint32_t word;
    std::memcpy(&word, p, 4);
    return word;
}

// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
inline uint64_t fold(uint64_t a, uint64_t b) {
#if defined(_MSC_VER)
    uint64_t high;
    const uint64_t low = _umul128(a, b, &high);
    return low ^ high;
#else
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#endif
}

// The first and last bytes as two words, which may overlap; up to 16 bytes they hold all.
inline void load_ends(std::string_view text, uint64_t& first, uint64_t& last) {
    const char* p = text.data();
    const size_t n = text.size();
    if (n >= 8) {
        first = load8(p);
        last = load8(p + n - 8);
    } else if (n >= 4) {
        first = load4(p);
        last = load4(p + n - 4);
    } else {
        first = last = 0;
        for (size_t i = 0; i < n; ++i) first = first << 8 | static_cast<unsigned char>(p[i]);
    }
}

// Equality without a call, since ids are short: whole words, the last of them overlapping.
inline bool same_bytes(std::string_view a, std::string_view b) {
    const size_t n = a.size();
    if (n != b.size()) return false;
    if (n > 16) return std::memcmp(a.data(), b.data(), n) == 0;
    uint64_t first_a, last_a, first_b, last_b;
    load_ends(a, first_a, last_a);
    load_ends(b, first_b, last_b);
    return first_a == first_b && last_a == last_b;
}

// The ends of an id and its size. Those of up to 16 bytes are all of it: a table that keeps them looks at
// no other memory to know an id.
struct IdKey {
    static constexpr size_t kWhole = 16;
    uint64_t first = 0, last = 0, size = 0;

    IdKey() = default;
    explicit IdKey(std::string_view id) : size(id.size()) { load_ends(id, first, last); }

    bool operator==(const IdKey& other) const { return first == other.first && last == other.last && size == other.size; }
    bool is_whole() const { return size <= kWhole; }
};

inline uint32_t hash_bytes(std::string_view text) {
    constexpr uint64_t secret0 = 0x9E3779B97F4A7C15u, secret1 = 0xE7037ED1A0B428DBu;
    uint64_t state = text.size() ^ secret0;
    while (text.size() > 16) {
        state = fold(load8(text.data()) ^ secret1, load8(text.data() + 8) ^ state);
        text.remove_prefix(16);
    }
    uint64_t first, last;
    load_ends(text, first, last);
    const uint64_t mixed = fold(first ^ secret1, last ^ state);
    return static_cast<uint32_t>(fold(mixed ^ secret0, secret1));
}

// Whether one of eight bytes is a space or less.
inline bool has_low_byte(uint64_t word) {
    constexpr uint64_t ones = ~uint64_t{0} / 255;
    return ((word - 33 * ones) & ~word & (128 * ones)) != 0;
}

// Whether core/ids.py allows an id: not empty, no white space and no NUL.
inline bool is_clean_id(std::string_view id) {
    size_t at = 0;
    while (at + 8 <= id.size() && !has_low_byte(load8(id.data() + at))) at += 8;
    for (; at < id.size(); ++at) {
        const char c = id[at];
        if (c == ' ' || (c >= '\t' && c <= '\r') || c == '\0') return false;
    }
    return !id.empty();
}

}  // namespace assay
