// Gives each distinct id a code: 0, 1, 2, … in order of first appearance.
#pragma once

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
    Interner() : slots_(1024, Slot{0, -1}) { offsets_.push_back(0); }

    size_t size() const { return offsets_.size() - 1; }

    std::string_view operator[](size_t code) const {
        const int64_t begin = offsets_[code];
        return {blob_.data() + begin, static_cast<size_t>(offsets_[code + 1] - begin)};
    }

    int32_t intern(std::string_view id, uint32_t hash) {
        size_t at = hash & mask();
        for (; slots_[at].code >= 0; at = (at + 1) & mask()) {
            if (slots_[at].hash == hash && same_bytes((*this)[slots_[at].code], id)) return slots_[at].code;
        }
        return add(id, hash, at);
    }

    // Interns many ids. The table is far larger than the cache, so the memory that an id needs
    // is asked for some ids ahead: first the slot, then the offset it names, then the text.
    void intern(const HashedId* ids, size_t count, int32_t* codes) {
        constexpr size_t step = 12;
        int32_t expected[4 * step];  // a ring: the code that each id will probably get
        for (size_t i = 0; i < count + 3 * step; ++i) {
            if (i < count) prefetch(&slots_[ids[i].hash & mask()]);
            if (i >= step && i < count + step) expected[(i - step) % (4 * step)] = expect(ids[i - step].hash);
            if (i >= 2 * step && i < count + 2 * step) prefetch_text(expected[(i - 2 * step) % (4 * step)]);
            if (i < 3 * step) continue;
            const size_t now = i - 3 * step;
            const int32_t code = expected[now % (4 * step)];
            const bool met = code >= 0 && same_bytes((*this)[code], ids[now].text);
            codes[now] = met ? code : intern(ids[now].text, ids[now].hash);
        }
    }

    // The code of an id, or -1.
    int32_t find(std::string_view id, uint32_t hash) const {
        for (size_t at = hash & mask(); slots_[at].code >= 0; at = (at + 1) & mask()) {
            if (slots_[at].hash == hash && same_bytes((*this)[slots_[at].code], id)) return slots_[at].code;
        }
        return -1;
    }

    // Hand the ids over and forget the table.
    Column<char> take_blob() { return std::move(blob_); }
    Column<int64_t> take_offsets() {
        slots_ = Column<Slot>();
        return std::move(offsets_);
    }

private:
    struct Slot {
        uint32_t hash;
        int32_t code;  // -1: free
    };

    size_t mask() const { return slots_.size() - 1; }

    // The first code with this hash, or -1; asks for its offset.
    int32_t expect(uint32_t hash) const {
        for (size_t at = hash & mask(); slots_[at].code >= 0; at = (at + 1) & mask()) {
            if (slots_[at].hash != hash) continue;
            prefetch(&offsets_[slots_[at].code]);
            return slots_[at].code;
        }
        return -1;
    }

    void prefetch_text(int32_t code) const {
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
        Column<Slot> old(2 * slots_.size(), Slot{0, -1});
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
