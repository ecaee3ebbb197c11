// Pairs of documents that two rankings order in opposite ways, and pairs that tie in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace assay {

// Counts the pairs of one row at a time, in memory that rows share. Ranks are from 1 to the row's length.
class PairCounter {
public:
    void count(const int64_t* a, const int64_t* b, size_t size, int64_t& tied, int64_t& discordant) {
        by_b_.resize(size);
        by_a_.resize(size);
        sort_by(b, size, [](size_t i) { return static_cast<uint32_t>(i); }, by_b_);
        sort_by(a, size, [&](size_t i) { return by_b_[i]; }, by_a_);
        tied = discordant = 0;
        starts_.assign(size + 1, 0);  // now a tree of sums: how many of the documents before have a rank in b
        int64_t same = 0;
        for (size_t i = 0; i < size; ++i) {
            const uint32_t at = by_a_[i];
            same = i > 0 && a[at] == a[by_a_[i - 1]] && b[at] == b[by_a_[i - 1]] ? same + 1 : 0;
            tied += same;
            int64_t not_after = 0;
            for (auto place = static_cast<size_t>(b[at]); place > 0; place &= place - 1) not_after += starts_[place];
            discordant += static_cast<int64_t>(i) - not_after;
            for (auto place = static_cast<size_t>(b[at]); place <= size; place += place & (~place + 1)) ++starts_[place];
        }
    }

private:
    // Puts the documents element(0), element(1) … in the order of their ranks; equal ones stay as they are.
    template <class Element>
    void sort_by(const int64_t* ranks, size_t size, Element element, std::vector<uint32_t>& sorted) {
        starts_.assign(size + 1, 0);
        for (size_t i = 0; i < size; ++i) ++starts_[static_cast<size_t>(ranks[i])];
        uint32_t start = 0;
        for (uint32_t& count : starts_) {
            const uint32_t next = start + count;
            count = start;
            start = next;
        }
        for (size_t i = 0; i < size; ++i) {
            const uint32_t at = element(i);
            sorted[starts_[static_cast<size_t>(ranks[at])]++] = at;
        }
    }

    std::vector<uint32_t> by_a_, by_b_, starts_;
};

}  // namespace assay
