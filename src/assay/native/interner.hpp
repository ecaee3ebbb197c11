// Gives each distinct id a code: 0, 1, 2, … in order of first appearance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "column.hpp"
#include "hashing.hpp"
#include "hints.hpp"

namespace assay {

struct HashedId {
    std::string_view text;
    uint32_t hash;
};

class Interner {
public:
    Interner() : slots_(1024, Slot{}) { offsets_.push_back(0); }

    size_t size() const { return offsets_.size() - 1; }

    std::string_view operator[](size_t code) const {
        const int64_t begin = offsets_[code];
        return {blob_.data() + begin, static_cast<size_t>(offsets_[code + 1] - begin)};
    }

    int32_t intern(std::string_view id, uint32_t hash) {
        const size_t at = place(id, hash);
        return slots_[at].code >= 0 ? slots_[at].code : add(id, hash, at);
    }

    // Interns many ids. The table is larger than the cache, so a slot is asked for some ids ahead.
    void intern(const HashedId* ids, size_t count, int32_t* codes) {
        constexpr size_t ahead = 24;
        for (size_t i = 0; i < std::min(ahead, count); ++i) prefetch(&slots_[ids[i].hash & mask()]);
        for (size_t i = 0; i < count; ++i) {
            if (i + ahead < count) prefetch(&slots_[ids[i + ahead].hash & mask()]);
            codes[i] = intern(ids[i].text, ids[i].hash);
        }
    }

    // The code of an id, or -1.
    int32_t find(std::string_view id, uint32_t hash) const { return slots_[place(id, hash)].code; }

    // Hand the ids over and forget the table.
    Column<char> take_blob() { return std::move(blob_); }
    Column<int64_t> take_offsets() {
        slots_ = Column<Slot>();
        return std::move(offsets_);
    }

private:
    struct Slot {  // two to a cache line
        IdKey key;
        uint32_t hash = 0;
        int32_t code = -1;  // -1: free
    };

    size_t mask() const { return slots_.size() - 1; }

    // The slot of an id, or the free one where it belongs.
    size_t place(std::string_view id, uint32_t hash) const {
        const IdKey key(id);
        size_t at = hash & mask();
        for (; slots_[at].code >= 0; at = (at + 1) & mask()) {
            const Slot& slot = slots_[at];
            if (slot.key == key && (key.is_whole() || same_bytes((*this)[slot.code], id))) break;
        }
        return at;
    }

    int32_t add(std::string_view id, uint32_t hash, size_t at) {
        const auto code = static_cast<int32_t>(size());
        blob_.append(id.data(), id.size());
        offsets_.push_back(static_cast<int64_t>(blob_.size()));
        slots_[at] = {IdKey(id), hash, code};
        if (10 * size() > 6 * slots_.size()) grow();
        return code;
    }

    void grow() {
        Column<Slot> old(2 * slots_.size(), Slot{});
        std::swap(old, slots_);
        for (size_t i = 0; i < old.size(); ++i) {
            const Slot slot = old[i];
            if (slot.code < 0) continue;
            size_t at = slot.hash & mask();
            while (slots_[at].code >= 0) at = (at + 1) & mask();
            slots_[at] = slot;
        }
    }

    Column<Slot> slots_;
    Column<char> blob_;
    Column<int64_t> offsets_;
};

}  // namespace assay
