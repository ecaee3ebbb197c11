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
#include "trec/hashing.hpp"

namespace assay {

struct HashedId {
    std::string_view text;
    uint32_t hash;
};

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
    Interner() : slots_(std::make_unique<IdSlots>(1024)), shown_(slots_.get()) { offsets_.push_back(0); }

    size_t size() const { return offsets_.size() - 1; }

    std::string_view operator[](size_t code) const {
        const int64_t begin = offsets_[code];
        return {blob_.data() + begin, static_cast<size_t>(offsets_[code + 1] - begin)};
    }

    int32_t intern(std::string_view id, uint32_t hash) {
        const IdKey key(id);
        size_t at = slots_->home(hash);
        for (int32_t code; (code = (*slots_)[at].code()) >= 0; at = slots_->after(at)) {
            if ((*slots_)[at].key == key && (key.is_whole() || same_bytes((*this)[code], id))) return code;
        }
        return add(id, hash, at);
    }

    // The codes of those ids that are known, in any thread, and the places of those that are left for `complete`:
    // of a long id only the ends were looked at. The table is larger than the cache, so that a slot is asked for
    // some ids ahead.
    void guess(const HashedId* ids, size_t count, int32_t* codes, Column<uint32_t>& open) const {
        const IdSlots& slots = *shown_.load(std::memory_order_acquire);
        uint32_t* place = open.extend(count);
        for (size_t i = 0; i < std::min(kAhead, count); ++i) slots.expect(ids[i].hash);
        for (size_t i = 0; i < count; ++i) {
            if (i + kAhead < count) slots.expect(ids[i + kAhead].hash);
            codes[i] = guess(slots, ids[i]);
            *place = static_cast<uint32_t>(i);
            place += codes[i] < 0 || ids[i].text.size() > IdKey::kWhole;
        }
        open.shrink(static_cast<size_t>(place - open.data()));
    }

    // Adds those that are new, and looks at the whole of long ones.
    void complete(const HashedId* ids, int32_t* codes, const Column<uint32_t>& open) {
        for (size_t i = 0; i < open.size(); ++i) {
            if (i + kAhead < open.size()) slots_->expect(ids[open[i + kAhead]].hash);
            const HashedId& id = ids[open[i]];
            int32_t& code = codes[open[i]];
            if (code < 0 || !same_bytes((*this)[code], id.text)) code = intern(id.text, id.hash);
        }
    }

    // To be called now and then while no thread guesses: frees tables that were outgrown.
    void settle() { outgrown_.clear(); }

    // Hand the ids over and forget the table.
    Column<char> take_blob() { return std::move(blob_); }
    Column<int64_t> take_offsets() {
        slots_.reset();
        return std::move(offsets_);
    }

private:
    static constexpr size_t kAhead = 24;

    static int32_t guess(const IdSlots& slots, const HashedId& id) {
        const IdKey key(id.text);
        size_t at = slots.home(id.hash);
        for (int32_t code; (code = slots[at].code()) >= 0; at = slots.after(at)) {
            if (slots[at].key == key && slots[at].hash == id.hash) return code;
        }
        return -1;
    }

    int32_t add(std::string_view id, uint32_t hash, size_t at) {
        const auto code = static_cast<int32_t>(size());
        blob_.append(id.data(), id.size());
        offsets_.push_back(static_cast<int64_t>(blob_.size()));
        (*slots_)[at].take(IdKey(id), hash, code);
        if (10 * size() > 6 * slots_->size()) grow();
        return code;
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
    Column<char> blob_;
    Column<int64_t> offsets_;
};

}  // namespace assay
