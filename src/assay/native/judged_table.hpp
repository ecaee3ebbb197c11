// One query's judged documents, for looking them up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "judged.hpp"

namespace assay {

// A table of one query's judged documents. It is made anew for each query: small enough for
// the nearest cache, where a table over all documents would miss at every look.
class JudgedTable {
public:
    void fill(const JudgedRows& judged, size_t row) {
        const auto count = static_cast<size_t>(judged.offsets[row + 1] - judged.offsets[row]);
        resize(count);
        for (int64_t j = judged.offsets[row]; j < judged.offsets[row + 1]; ++j) {
            if (judged.docs[j] >= 0) insert(judged.docs[j], j);
        }
    }

    // The index of the judgment of `doc`, or -1.
    int64_t find(int32_t doc) const {
        for (size_t at = home(doc);; at = (at + 1) & mask_) {
            if (slots_[at].doc == doc) return slots_[at].judgment;
            if (slots_[at].doc < 0) return -1;
        }
    }

private:
    struct Slot {
        int32_t doc = -1;
        int64_t judgment = -1;
    };

    size_t home(int32_t doc) const {
        return (static_cast<uint32_t>(doc) * 0x9E3779B1u >> shift_) & mask_;
    }

    // At most a quarter full, so that most looks end at the first slot.
    void resize(size_t count) {
        int bits = 4;
        while ((size_t{1} << bits) < 4 * count && bits < 31) ++bits;
        shift_ = 32 - bits;
        mask_ = (size_t{1} << bits) - 1;
        slots_.assign(mask_ + 1, Slot{});
    }

    // A document judged twice keeps its first judgment.
    void insert(int32_t doc, int64_t judgment) {
        size_t at = home(doc);
        while (slots_[at].doc >= 0 && slots_[at].doc != doc) at = (at + 1) & mask_;
        if (slots_[at].doc < 0) slots_[at] = {doc, judgment};
    }

    std::vector<Slot> slots_;
    size_t mask_ = 0;
    int shift_ = 32;
};

}  // namespace assay
