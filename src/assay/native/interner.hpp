// Gives each distinct id a code: 0, 1, 2, … in order of first appearance.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "column.hpp"
#include "hashing.hpp"

namespace assay {

inline void prefetch(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

class Interner {
public:
    Interner() : slots_(1024) { offsets_.push_back(0); }

    size_t size() const { return offsets_.size() - 1; }

    std::string_view operator[](size_t code) const {
        const int64_t begin = offsets_[code];
        return {blob_.data() + begin, static_cast<size_t>(offsets_[code + 1] - begin)};
    }

    int32_t intern(std::string_view id, uint32_t hash) {
        size_t at = hash & mask();
        for (; slots_[at].code >= 0; at = (at + 1) & mask()) {
            if (slots_[at].hash == hash && (*this)[slots_[at].code] == id) return slots_[at].code;
        }
        return add(id, hash, at);
    }

    // Interns many ids. The table is far larger than the cache, so the three memory accesses
    // that one id needs are asked for some ids ahead, each a step before the next depends on it.
    void intern(const std::string_view* ids, const uint32_t* hashes, size_t count, int32_t* codes) {
        for (size_t i = 0; i < count; ++i) {
            if (i + 24 < count) prefetch(&slots_[hashes[i + 24] & mask()]);
            if (i + 16 < count) prefetch_offset(hashes[i + 16]);
            if (i + 8 < count) prefetch_text(hashes[i + 8]);
            codes[i] = intern(ids[i], hashes[i]);
        }
    }

    // The code of an id, or -1.
    int32_t find(std::string_view id, uint32_t hash) const {
        for (size_t at = hash & mask(); slots_[at].code >= 0; at = (at + 1) & mask()) {
            if (slots_[at].hash == hash && (*this)[slots_[at].code] == id) return slots_[at].code;
        }
        return -1;
    }

    // Hand the ids over and forget the table.
    Column<char> take_blob() { return std::move(blob_); }
    Column<int64_t> take_offsets() {
        std::vector<Slot>().swap(slots_);
        return std::move(offsets_);
    }

private:
    struct Slot {
        uint32_t hash = 0;
        int32_t code = -1;
    };

    size_t mask() const { return slots_.size() - 1; }

    void prefetch_offset(uint32_t hash) const {
        const int32_t code = slots_[hash & mask()].code;
        if (code >= 0) prefetch(&offsets_[code]);
    }

    void prefetch_text(uint32_t hash) const {
        const int32_t code = slots_[hash & mask()].code;
        if (code >= 0) prefetch(blob_.data() + offsets_[code]);
    }

    int32_t add(std::string_view id, uint32_t hash, size_t at) {
        const auto code = static_cast<int32_t>(size());
        blob_.append(id.data(), id.size());
        offsets_.push_back(static_cast<int64_t>(blob_.size()));
        slots_[at] = {hash, code};
        if (10 * size() > 6 * slots_.size()) grow();
        return code;
    }

    void grow() {
        std::vector<Slot> old(2 * slots_.size());
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.code < 0) continue;
            size_t at = slot.hash & mask();
            while (slots_[at].code >= 0) at = (at + 1) & mask();
            slots_[at] = slot;
        }
    }

    std::vector<Slot> slots_;
    Column<char> blob_;
    Column<int64_t> offsets_;
};

}  // namespace assay
