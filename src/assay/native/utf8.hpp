// Is a byte string valid UTF-8? The rule of Unicode's table 3-7, the same that Python applies.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

// The size of the character at `p`, or 0 if there is no valid one.
inline size_t utf8_size(const unsigned char* p, size_t left) {
    const unsigned char lead = p[0];
    if (lead < 0x80) return 1;
    const size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (size == 0 || size > left) return 0;
    // The second byte excludes overlong forms, surrogates and what lies beyond U+10FFFF.
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < size; ++i) {
        if ((p[i] & 0xC0) != 0x80) return 0;
    }
    return size;
}

inline bool is_utf8(std::string_view text) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    for (size_t at = 0; at < text.size();) {
        const size_t size = utf8_size(bytes + at, text.size() - at);
        if (size == 0) return false;
        at += size;
    }
    return true;
}

}  // namespace assay
