#include "trec/ids.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "trec/hashing.hpp"
#include "trec/interner.hpp"

namespace assay {

namespace {

constexpr size_t kSlotsByNumber = 32;  // at most, for each id

std::string_view id_at(const IdView& ids, int64_t i) {
    const char* blob = reinterpret_cast<const char*>(ids.blob);
    return {blob + ids.offsets[i], static_cast<size_t>(ids.offsets[i + 1] - ids.offsets[i])};
}

// Places of ids by their bytes; the ids themselves stay where they are.
class PlaceTable {
public:
    // Where an id is, if it is there: in a slot by number, or else among those of its hash.
    struct Home {
        DigitTable::Slot* slot;
        uint32_t hash;
    };

    explicit PlaceTable(const IdView& ids) : ids_(ids), digits_(kSlotsByNumber * ids.count) {
        while (size_ < 2 * ids.count) size_ *= 2;
        memory_.reset(std::calloc(size_, sizeof(Slot)));  // zeros that the system gives are not written again
        if (!memory_) throw std::bad_alloc();
        slots_ = static_cast<Slot*>(memory_.get());
        if (ids.count != 0 && ids.count < INT32_MAX) digits_.start(id_at(ids, 0));
    }

    Home home(std::string_view id) const {
        DigitTable::Slot* slot = digits_.find(id);
        const uint32_t hash = slot == nullptr ? hash_bytes(id) : 0;
        prefetch(slot == nullptr ? static_cast<void*>(&slots_[hash & mask()]) : slot);
        return {slot, hash};
    }

    // The place of an equal id that was added before, or -1 after adding this one.
    int64_t add(int64_t place, const Home& home) {
        if (home.slot != nullptr) {
            const int32_t before = home.slot->load(std::memory_order_relaxed) - 1;
            if (before < 0) home.slot->store(static_cast<int32_t>(place + 1), std::memory_order_relaxed);
            return before;
        }
        size_t at = home.hash & mask();
        for (; slots_[at].after != 0; at = (at + 1) & mask()) {
            if (holds(slots_[at], id_at(ids_, place), home.hash)) return slots_[at].after - 1;
        }
        const std::string_view id = id_at(ids_, place);
        if (DigitTable::Slot* slot = digits_.find(id)) return add(place, {slot, 0});  // which it had not, some ids ago
        slots_[at] = {home.hash, place + 1};
        if (digits_.widen(id)) fill_digits(place);
        return -1;
    }

    int64_t find(std::string_view id, const Home& home) const {
        if (home.slot != nullptr) return home.slot->load(std::memory_order_relaxed) - 1;
        for (size_t at = home.hash & mask(); slots_[at].after != 0; at = (at + 1) & mask()) {
            if (holds(slots_[at], id, home.hash)) return slots_[at].after - 1;
        }
        return -1;
    }

private:
    struct Slot {
        uint32_t hash;
        int64_t after;  // the place + 1; 0: free
    };

    size_t mask() const { return size_ - 1; }

    // Up to this place, the first of equal ids.
    void fill_digits(int64_t last) {
        for (int64_t place = last; place >= 0; --place) {
            if (DigitTable::Slot* slot = digits_.find(id_at(ids_, place))) slot->store(static_cast<int32_t>(place + 1), std::memory_order_relaxed);
        }
    }

    bool holds(const Slot& slot, std::string_view id, uint32_t hash) const {
        return slot.hash == hash && id_at(ids_, slot.after - 1) == id;
    }

    const IdView& ids_;
    DigitTable digits_;
    size_t size_ = 16;
    ZeroedMemory memory_;
    Slot* slots_;
};

// Calls visit(i, home of id i) for all ids, having told the table what comes some ids later.
// Stops when visit returns false.
template <class Visit>
void for_each_id(const IdView& ids, const PlaceTable& table, Visit visit) {
    constexpr int64_t ahead = 32;
    const auto count = static_cast<int64_t>(ids.count);
    PlaceTable::Home homes[ahead];
    for (int64_t i = 0; i < count + ahead; ++i) {
        if (i >= ahead && !visit(i - ahead, homes[i % ahead])) return;
        if (i < count) homes[i % ahead] = table.home(id_at(ids, i));
    }
}

// The first eight bytes as a number that orders like them; a shorter id is filled with zeros.
uint64_t leading_bytes(std::string_view id) {
    uint64_t key = 0;
    for (size_t i = 0; i < 8; ++i) key = key << 8 | (i < id.size() ? static_cast<unsigned char>(id[i]) : 0);
    return key;
}

struct SortKey {
    uint64_t leading;
    int64_t place;
};

}  // namespace

std::pair<int64_t, int64_t> first_duplicate(const IdView& ids) {
    PlaceTable table(ids);
    std::pair<int64_t, int64_t> pair{-1, -1};
    for_each_id(ids, table, [&](int64_t i, const PlaceTable::Home& home) {
        const int64_t earlier = table.add(i, home);
        if (earlier >= 0) pair = {earlier, i};
        return earlier < 0;
    });
    return pair;
}

namespace {

// match_ids with a table of the ids, which may be there twice, instead of the others.
Column<int64_t> match_few(const IdView& ids, const IdView& others) {
    PlaceTable table(ids);
    std::vector<int64_t> first(ids.count);
    for_each_id(ids, table, [&](int64_t i, const PlaceTable::Home& home) {
        const int64_t earlier = table.add(i, home);
        first[i] = earlier < 0 ? i : earlier;
        return true;
    });
    Column<int64_t> places(ids.count, -1);
    for_each_id(others, table, [&](int64_t i, const PlaceTable::Home& home) {
        const int64_t at = table.find(id_at(others, i), home);
        if (at >= 0 && places[at] < 0) places[at] = i;
        return true;
    });
    for (size_t i = 0; i < ids.count; ++i) places[i] = places[first[i]];
    return places;
}

}  // namespace

Column<int64_t> match_ids(const IdView& ids, const IdView& others) {
    if (ids.count < others.count) return match_few(ids, others);
    PlaceTable table(others);
    for_each_id(others, table, [&](int64_t i, const PlaceTable::Home& home) {
        table.add(i, home);
        return true;
    });
    Column<int64_t> places(ids.count);
    for_each_id(ids, table, [&](int64_t i, const PlaceTable::Home& home) {
        places[i] = table.find(id_at(ids, i), home);
        return true;
    });
    return places;
}

Column<int64_t> order_ids(const IdView& ids, bool descending) {
    std::vector<SortKey> keys;
    keys.reserve(ids.count);
    for (size_t i = 0; i < ids.count; ++i) {
        const auto place = static_cast<int64_t>(i);
        const uint64_t leading = leading_bytes(id_at(ids, place));
        keys.push_back({descending ? ~leading : leading, place});
    }
    std::sort(keys.begin(), keys.end(), [&](const SortKey& a, const SortKey& b) {
        if (a.leading != b.leading) return a.leading < b.leading;
        const int order = id_at(ids, a.place).compare(id_at(ids, b.place));
        if (order != 0) return descending ? order > 0 : order < 0;
        return a.place < b.place;
    });
    Column<int64_t> order(ids.count);
    for (size_t i = 0; i < ids.count; ++i) order[i] = keys[i].place;
    return order;
}

IdColumn take_ids(const IdView& ids, const int64_t* places, size_t count) {
    IdColumn column;
    column.offsets = Column<int64_t>(count + 1);
    column.offsets[0] = 0;
    for (size_t i = 0; i < count; ++i) {
        const std::string_view id = id_at(ids, places[i]);
        column.blob.append(id.data(), id.size());
        column.offsets[i + 1] = static_cast<int64_t>(column.blob.size());
    }
    return column;
}

NumberedIds number_ids(const IdView& ids) {
    constexpr size_t kAtOnce = 256;
    std::string_view some[kAtOnce];
    Column<uint32_t> open;
    Interner table(kSlotsByNumber * ids.count);
    NumberedIds out;
    for (size_t begin = 0; begin < ids.count; begin += kAtOnce) {
        const size_t size = std::min(kAtOnce, ids.count - begin);
        for (size_t i = 0; i < size; ++i) {
            const std::string_view id = id_at(ids, static_cast<int64_t>(begin + i));
            out.clean = out.clean && is_clean_id(id) && table.size() + size < INT32_MAX;
            some[i] = id;
        }
        if (!out.clean) return out;
        int32_t* codes = out.codes.extend(size);
        open.clear();
        table.guess(some, size, codes, open);
        table.complete(some, codes, open);
        table.settle();
    }
    out.distinct.blob = table.take_blob();
    out.distinct.offsets = table.take_offsets();
    return out;
}

}  // namespace assay
