// One query's judged documents, for looking them up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "judged.hpp"

namespace assay {

// A table of one query's judged documents. It stays in the nearest cache, where a table over all
// documents would miss at every look, and is mostly empty, so that most looks end at an empty
// slot. A slot counts only if it carries this query's stamp: nothing is cleared between queries.
class JudgedTable {
public:
    void fill(const JudgedRows& judged, size_t row) {
        const int64_t begin = judged.offsets[row], end = judged.offsets[row + 1];
        start(static_cast<size_t>(end - begin));
        for (int64_t j = begin; j < end; ++j) {
            if (judged.docs[j] >= 0) insert(judged.docs[j], j);
        }
    }

    // The index of the judgment of `doc`, or -1.
    int64_t find(int32_t doc) const {
        for (size_t at = home(doc); slots_[at].stamp == stamp_; at = (at + 1) & mask_) {
            if (slots_[at].doc == doc) return judgments_[at];
        }
        return -1;
    }

private:
    struct Slot {
        int32_t doc = 0;
        uint32_t stamp = 0;
    };

    size_t home(int32_t doc) const {
        return static_cast<uint32_t>(doc) * 0x9E3779B1u >> shift_;
    }

    // At least four slots for each document, and 1024 at the least.
    void start(size_t count) {
        int bits = 10;
        while ((size_t{1} << bits) < 4 * count && bits < 31) ++bits;
        const bool worn = ++stamp_ == 0;
        if (slots_.size() >> bits != 0 && !worn) return;
        slots_.assign(std::max(slots_.size(), size_t{1} << bits), Slot{});
        judgments_.resize(slots_.size());
        mask_ = slots_.size() - 1;
        if (!worn) shift_ = 32 - bits;
        stamp_ = 1;
    }

    // A document judged twice keeps its first judgment.
    void insert(int32_t doc, int64_t judgment) {
        size_t at = home(doc);
        for (; slots_[at].stamp == stamp_; at = (at + 1) & mask_) {
            if (slots_[at].doc == doc) return;
        }
        slots_[at] = {doc, stamp_};
        judgments_[at] = judgment;
    }

    std::vector<Slot> slots_;
    std::vector<int64_t> judgments_;
    size_t mask_ = 0;
    int shift_ = 32;
    uint32_t stamp_ = 0;
};

}  // namespace assay
