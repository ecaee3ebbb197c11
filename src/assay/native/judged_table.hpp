// One query's judged documents, and where they stand in a row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "counted.hpp"
#include "judged.hpp"

namespace assay {

// A table of one query's judged documents. It stays in the nearest cache, where a table over all
// documents would miss at every look, and is mostly empty, so that most looks end at an empty
// slot. A slot counts only if it carries this query's stamp: nothing is cleared between queries.
//
// A few judged documents are compared with many of the row at once instead.
class JudgedTable {
public:
    void fill(const JudgedRows& judged, size_t query) {
        begin_ = judged.offsets[query], end_ = judged.offsets[query + 1];
        judged_ = judged.docs;
        if (is_small()) return;
        start(static_cast<size_t>(end_ - begin_));
        for (int64_t j = begin_; j < end_; ++j) {
            if (judged_[j] >= 0) insert(judged_[j], j);
        }
    }

    // Calls take(place, judgment) for each judged document among docs[begin] to docs[end - 1], all of them >= 0.
    template <class Take>
    void each(const int32_t* docs, int64_t begin, int64_t end, Take take) const {
        if (is_small()) return each_of_few(docs, begin, end, take);
        for (int64_t i = begin; i < end; ++i) {
            const int64_t judgment = find(docs[i]);
            if (judgment >= 0) take(i, judgment);
        }
    }

private:
    static constexpr int64_t kFew = 4;

    bool is_small() const { return end_ - begin_ <= kFew; }

    template <class Take>
    void each_of_few(const int32_t* docs, int64_t begin, int64_t end, Take take) const {
        for (int64_t i = begin; i < end; i += kAtOnce) {
            const int64_t stop = std::min(i + kAtOnce, end);
            if (stop == i + kAtOnce && !holds_any(docs + i, judged_ + begin_, end_ - begin_)) continue;
            for (int64_t at = i; at < stop; ++at) {
                int64_t j = begin_;
                while (j < end_ && judged_[j] != docs[at]) ++j;
                if (j < end_) take(at, j);
            }
        }
    }

    // The index of the judgment of `doc`, or -1.
    int64_t find(int32_t doc) const {
        for (size_t at = home(doc); slots_[at].stamp == stamp_; at = (at + 1) & mask_) {
            if (slots_[at].doc == doc) return judgments_[at];
        }
        return -1;
    }

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

    const int32_t* judged_ = nullptr;
    int64_t begin_ = 0, end_ = 0;
    std::vector<Slot> slots_;
    std::vector<int64_t> judgments_;
    size_t mask_ = 0;
    int shift_ = 32;
    uint32_t stamp_ = 0;
};

}  // namespace assay
