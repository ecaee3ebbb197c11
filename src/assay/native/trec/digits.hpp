// Ids that are one prefix and decimal digits, such as doc00174081 or 7187155: each has a slot of its own in a table by
// number, which is found without a hash and without looking at another id.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "trec/compiler.hpp"
#include "trec/hashing.hpp"

namespace assay {

struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
};
using ZeroedMemory = std::unique_ptr<void, FreeMemory>;  // by std::calloc

// Whether a word of text, read as a number, has its first byte in the lowest bits.
inline bool first_byte_is_lowest() {
    const uint32_t number = 1;
    char byte;
    std::memcpy(&byte, &number, 1);
    return byte == 1;
}

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr uint64_t kZeros = '0' * (~uint64_t{0} / 255);  // the text 00000000

// The value of one to eight digits in the highest bytes of a word, each less '0', with zeros before them; false if one
// is no digit. Neighbours are added up in pairs, the pairs in pairs and these once more.
ASSAY_INLINE bool add_digits(uint64_t word, uint64_t& value) {
    constexpr uint64_t ones = ~uint64_t{0} / 255;
    const uint64_t pairs = word * (1 + (10 << 8)) >> 8 & 0x00FF00FF00FF00FF;
    const uint64_t fours = pairs * (1 + (100 << 16)) >> 16 & 0x0000FFFF0000FFFF;
    value = fours * (1 + (uint64_t{10000} << 32)) >> 32;
    return (((word + (0x7F - 9) * ones) | word) & 0x80 * ones) == 0;
}

// The prefix is that of the first id. Digits of each count have slots of their own, so that 1 and 01 are two ids. Numbers
// below a limit have slots. It rises where ids are so dense that their slots take no more memory than a table by hash.
// One thread changes a table, while others may look for slots.
class DigitTable {
public:
    using Slot = std::atomic<int32_t>;  // 0 at first

    // Numbers from `most` on never have slots. Memory is used only where slots are.
    explicit DigitTable(size_t most) : most_(std::clamp(most, kLeast, kMost)) {}
    DigitTable(const DigitTable&) = delete;
    DigitTable& operator=(const DigitTable&) = delete;

    void start(std::string_view first_id) {
        size_t digits = 0;
        while (digits < std::min(kDigits, first_id.size()) && is_digit(first_id[first_id.size() - 1 - digits])) ++digits;
        const size_t prefix = first_id.size() - digits;
        if (digits == 0 || prefix > 8 || !first_byte_is_lowest()) return;
        size_t slots = 0, numbers = 10;
        for (size_t count = 1; count <= kDigits; ++count, numbers *= 10) {
            starts_[count] = slots;
            slots += std::min(numbers, most_);
        }
        memory_.reset(std::calloc(slots, sizeof(Slot)));
        prefix_ = prefix;
        mask_ = prefix == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * prefix) - 1;
        uint64_t last;
        load_all(first_id, word_, last);
        word_ &= mask_;
        slots_.store(static_cast<Slot*>(memory_.get()), std::memory_order_release);
    }

    // The slot of an id, or nullptr if it has none.
    ASSAY_INLINE Slot* find(std::string_view id) const {
        Slot* slots = slots_.load(std::memory_order_acquire);
        uint64_t number;
        if (slots == nullptr || !read(id, number) || number >= limit_.load(std::memory_order_relaxed)) return nullptr;
        return slots + starts_[id.size() - prefix_] + number;
    }

    // Counts a new id that has no slot. True if more ids have slots from now on, which are to be filled.
    bool widen(std::string_view id) {
        uint64_t number;
        if (slots_.load(std::memory_order_relaxed) == nullptr || !read(id, number) || number >= most_) return false;
        size_t step = step_, known = 0;
        while (number >= kLeast << step) ++step;
        ++known_[step];
        size_t widest = step_;
        for (size_t i = step_ + 1; i <= kSteps; ++i) {
            known += known_[i];
            if (kSparse * known >= kLeast << i) widest = i;
        }
        step_ = widest;
        const size_t limit = std::min(kLeast << step_, most_);
        return limit_.exchange(limit, std::memory_order_relaxed) != limit;
    }

    void clear() { slots_.store(nullptr, std::memory_order_relaxed), memory_.reset(); }

private:
    static constexpr size_t kDigits = 8, kSteps = 12, kLeast = 1 << 12, kMost = kLeast << kSteps;
    static constexpr size_t kSparse = 32;  // slots for each id take as much memory as one of a table by hash, or twice as much

    // The number after the prefix; false if the id has another form.
    ASSAY_INLINE bool read(std::string_view id, uint64_t& number) const {
        const size_t count = id.size() - prefix_;
        if (count - 1 >= kDigits) return false;
        uint64_t first, last;
        load_all(id, first, last);
        const size_t others = 64 - 8 * count;
        return (first & mask_) == word_ && add_digits((last ^ kZeros) >> others << others, number);
    }

    // The first eight bytes, and the last eight in the highest bytes of a word; fewer are filled with zeros.
    static ASSAY_INLINE void load_all(std::string_view text, uint64_t& first, uint64_t& last) {
        const char* p = text.data();
        const size_t n = text.size();
        if (n >= 8) {
            first = load8(p);
            last = load8(p + n - 8);
            return;
        }
        first = 0;
        if (n >= 4) {
            first = load4(p) | load4(p + n - 4) << 8 * (n - 4);
        } else {
            for (size_t i = 0; i < n; ++i) first |= uint64_t{static_cast<unsigned char>(p[i])} << 8 * i;
        }
        last = n == 0 ? 0 : first << (64 - 8 * n);
    }

    size_t most_;
    std::atomic<size_t> limit_{kLeast};
    size_t step_ = 0, known_[kSteps + 1] = {};  // ids without a slot, by the step at which they would have one
    size_t prefix_ = 0;
    uint64_t mask_ = 0, word_ = 0;
    size_t starts_[kDigits + 1] = {};
    ZeroedMemory memory_;
    std::atomic<Slot*> slots_{nullptr};
};

}  // namespace assay
