// Gives each distinct id a code: 0, 1, 2, … in order of first appearance. One thread adds ids, while others may
// look for those that are known already.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "trec/column.hpp"
#include "trec/compiler.hpp"
#include "trec/digits.hpp"
#include "trec/hashing.hpp"

namespace assay {

// A table of ids. A slot that is taken never changes again, and says so last, so that anyone may read.
class IdSlots {
public:
    struct Slot {  // two to a cache line, which begins with the first of them
        IdKey key;
        uint32_t hash;
        std::atomic<int32_t> number;  // the code + 1; 0: free

        int32_t code() const { return number.load(std::memory_order_acquire) - 1; }
        void take(const IdKey& id, uint32_t id_hash, int32_t code) {
            key = id;
            hash = id_hash;
            number.store(code + 1, std::memory_order_release);
        }
    };

    // Zeros that the system gives are not written again.
    explicit IdSlots(size_t size) : size_(size), memory_(std::calloc(size + 2, sizeof(Slot))) {
        if (memory_ == nullptr) throw std::bad_alloc();
        advise_large_pages(memory_, (size + 2) * sizeof(Slot));
        const size_t past = reinterpret_cast<size_t>(memory_) % kLine;
        slots_ = reinterpret_cast<Slot*>(static_cast<char*>(memory_) + (past == 0 ? 0 : kLine - past));
    }
    ~IdSlots() { std::free(memory_); }
    IdSlots(const IdSlots&) = delete;
    IdSlots& operator=(const IdSlots&) = delete;

    size_t size() const { return size_; }
    Slot& operator[](size_t i) { return slots_[i]; }
    const Slot& operator[](size_t i) const { return slots_[i]; }

    size_t home(uint32_t hash) const { return hash & (size_ - 2); }
    size_t after(size_t at) const { return (at + 1) & (size_ - 1); }
    void expect(uint32_t hash) const { prefetch(&slots_[home(hash)]); }

private:
    static constexpr size_t kLine = 64;
    static_assert(2 * sizeof(Slot) == kLine);

    size_t size_;
    void* memory_;
    Slot* slots_;
};

class Interner {
public:
    // Ids with numbers below `most` may be looked up by number.
    explicit Interner(size_t most = 0) : slots_(std::make_unique<IdSlots>(1024)), shown_(slots_.get()), digits_(most) {
        offsets_.push_back(0);
    }

    size_t size() const { return offsets_.size() - 1; }

    std::string_view operator[](size_t code) const {
        const int64_t begin = offsets_[code];
        return {blob_.data() + begin, static_cast<size_t>(offsets_[code + 1] - begin)};
    }

    int32_t intern(std::string_view id) {
        if (size() == 0) digits_.start(id);
        widened_ = false;
        return intern(id, place_of(id));
    }

    // The codes of those ids that are known, in any thread, and the places of those that are left for `complete`:
    // of a long id only the ends were looked at. The tables are larger than the cache, so that all slots of a few ids
    // are asked for before the first is read.
    void guess(const std::string_view* ids, size_t count, int32_t* codes, Column<uint32_t>& open) const {
        const IdSlots& slots = *shown_.load(std::memory_order_acquire);
        uint32_t* left = open.extend(count);
        Place places[kAtOnce];
        for (size_t i = 0; i < count; ++i) {
            if (i % kAtOnce == 0) find_places(slots, ids + i, std::min(kAtOnce, count - i), places);
            codes[i] = guess(slots, ids[i], places[i % kAtOnce]);
            *left = static_cast<uint32_t>(i);
            left += codes[i] < 0 || ids[i].size() > IdKey::kWhole;
        }
        open.shrink(static_cast<size_t>(left - open.data()));
    }

    // Adds those that are new, and looks at the whole of long ones.
    void complete(const std::string_view* ids, int32_t* codes, const Column<uint32_t>& open) {
        Place places[kAtOnce];
        std::string_view texts[kAtOnce];
        if (size() == 0 && open.size() != 0) digits_.start(ids[open[0]]);
        for (size_t i = 0; i < open.size(); ++i) {
            if (i % kAtOnce == 0) {
                const size_t size = std::min(kAtOnce, open.size() - i);
                for (size_t j = 0; j < size; ++j) texts[j] = ids[open[i + j]];
                find_places(*slots_, texts, size, places);
                widened_ = false;
            }
            const std::string_view id = texts[i % kAtOnce];
            int32_t& code = codes[open[i]];
            if (code < 0 || !same_bytes((*this)[code], id)) code = intern(id, places[i % kAtOnce]);
        }
    }

    // To be called now and then while no thread guesses: frees tables that were outgrown.
    void settle() { outgrown_.clear(); }

    // Hand the ids over and forget the tables.
    Column<char> take_blob() { return std::move(blob_); }
    Column<int64_t> take_offsets() {
        slots_.reset();
        digits_.clear();
        return std::move(offsets_);
    }

private:
    static constexpr size_t kAtOnce = 64;

    // Where an id is, if it is known: in a slot by number, or else among those of its hash.
    struct Place {
        DigitTable::Slot* slot;
        uint32_t hash;
    };

    ASSAY_INLINE Place place_of(std::string_view id) const {
        DigitTable::Slot* slot = digits_.find(id);
        return {slot, slot == nullptr ? hash_bytes(id) : 0};
    }

    ASSAY_INLINE void find_places(const IdSlots& slots, const std::string_view* ids, size_t count, Place* places) const {
        for (size_t i = 0; i < count; ++i) {
            places[i] = place_of(ids[i]);
            if (places[i].slot == nullptr) slots.expect(places[i].hash);
            else prefetch(places[i].slot);
        }
    }

    ASSAY_INLINE static int32_t guess(const IdSlots& slots, std::string_view id, const Place& place) {
        if (place.slot != nullptr) return place.slot->load(std::memory_order_relaxed) - 1;
        const IdKey key(id);
        size_t at = slots.home(place.hash);
        for (int32_t code; (code = slots[at].code()) >= 0; at = slots.after(at)) {
            if (slots[at].key == key && slots[at].hash == place.hash) return code;
        }
        return -1;
    }

    int32_t intern(std::string_view id, const Place& place) {
        if (place.slot != nullptr) {
            const int32_t code = place.slot->load(std::memory_order_relaxed) - 1;
            if (code >= 0) return code;
            place.slot->store(static_cast<int32_t>(size() + 1), std::memory_order_relaxed);
            return add(id);
        }
        const IdKey key(id);
        size_t at = slots_->home(place.hash);
        for (int32_t code; (code = (*slots_)[at].code()) >= 0; at = slots_->after(at)) {
            if ((*slots_)[at].key == key && (key.is_whole() || same_bytes((*this)[code], id))) return code;
        }
        if (widened_) {
            if (DigitTable::Slot* slot = digits_.find(id)) return intern(id, {slot, 0});  // which it had not before
        }
        (*slots_)[at].take(key, place.hash, static_cast<int32_t>(size()));
        if (10 * ++taken_ > 6 * slots_->size()) grow();
        const int32_t code = add(id);
        if (digits_.widen(id)) fill_digits();
        return code;
    }

    void fill_digits() {
        widened_ = true;
        for (size_t code = 0; code < size(); ++code) {
            if (DigitTable::Slot* slot = digits_.find((*this)[code])) slot->store(static_cast<int32_t>(code + 1), std::memory_order_relaxed);
        }
    }

    int32_t add(std::string_view id) {
        blob_.append(id.data(), id.size());
        offsets_.push_back(static_cast<int64_t>(blob_.size()));
        return static_cast<int32_t>(size() - 1);
    }

    void grow() {
        auto wide = std::make_unique<IdSlots>(2 * slots_->size());
        for (size_t i = 0; i < slots_->size(); ++i) {
            const IdSlots::Slot& slot = (*slots_)[i];
            if (slot.code() < 0) continue;
            size_t at = wide->home(slot.hash);
            while ((*wide)[at].code() >= 0) at = wide->after(at);
            (*wide)[at].take(slot.key, slot.hash, slot.code());
        }
        outgrown_.push_back(std::exchange(slots_, std::move(wide)));
        shown_.store(slots_.get(), std::memory_order_release);
    }

    std::unique_ptr<IdSlots> slots_;
    std::atomic<const IdSlots*> shown_;
    std::vector<std::unique_ptr<IdSlots>> outgrown_;  // some thread may still read them
    DigitTable digits_;
    bool widened_ = false;  // since places were found
    size_t taken_ = 0;      // slots by hash
    Column<char> blob_;
    Column<int64_t> offsets_;
};

}  // namespace assay
