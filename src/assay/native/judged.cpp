#include "judged.hpp"

#include <algorithm>
#include <vector>

#include "parallel.hpp"

namespace assay {

namespace {

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

// The hits of a range of rows.
struct Part {
    Column<int64_t> counts, rank, lo, hi;
    Column<double> grade;
};

class Finder {
public:
    Finder(const RankedRows& ranking, const JudgedRows& judged, Part& out)
        : ranking_(ranking), judged_(judged), out_(out) {}

    void find(size_t row) {
        const size_t before = out_.rank.size();
        if (judged_.offsets[row] != judged_.offsets[row + 1]) search(row);
        out_.counts.push_back(static_cast<int64_t>(out_.rank.size() - before));
    }

private:
    void search(size_t row) {
        table_.fill(judged_, row);
        const int64_t begin = ranking_.offsets[row], end = ranking_.offsets[row + 1];
        tie_lo_ = tie_end_ = begin;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t judgment = table_.find(ranking_.docs[i]);
            if (judgment < 0) continue;
            if (i >= tie_end_) find_tie(i, end);
            add(begin, i, judged_.grades[judgment]);
        }
    }

    // The documents around `i` that share its score. Earlier groups are not walked again.
    void find_tie(int64_t i, int64_t end) {
        const double* scores = ranking_.scores;
        int64_t lo = i, hi = i + 1;
        while (lo > tie_end_ && scores[lo - 1] == scores[i]) --lo;
        while (hi < end && scores[hi] == scores[i]) ++hi;
        tie_lo_ = lo;
        tie_end_ = hi;
    }

    void add(int64_t begin, int64_t i, double grade) {
        out_.rank.push_back(i - begin + 1);
        out_.lo.push_back(tie_lo_ - begin + 1);
        out_.hi.push_back(tie_end_ - begin);
        out_.grade.push_back(grade);
    }

    const RankedRows& ranking_;
    const JudgedRows& judged_;
    Part& out_;
    JudgedTable table_;
    int64_t tie_lo_ = 0, tie_end_ = 0;
};

void append(Found& found, const Part& part) {
    for (size_t i = 0; i < part.counts.size(); ++i) {
        found.offsets.push_back(found.offsets[found.offsets.size() - 1] + part.counts[i]);
    }
    found.rank.append(part.rank.data(), part.rank.size());
    found.lo.append(part.lo.data(), part.lo.size());
    found.hi.append(part.hi.data(), part.hi.size());
    found.grade.append(part.grade.data(), part.grade.size());
}

}  // namespace

Found find_judged(const RankedRows& ranking, const JudgedRows& judged) {
    const unsigned threads = threads_for(static_cast<size_t>(ranking.offsets[ranking.rows]));
    const std::vector<size_t> cuts = cut_rows(ranking.offsets, ranking.rows, threads);
    std::vector<Part> parts(threads);
    run_together(threads, [&](unsigned t) {
        Finder finder(ranking, judged, parts[t]);
        for (size_t row = cuts[t]; row < cuts[t + 1]; ++row) finder.find(row);
    });
    Found found;
    found.offsets.push_back(0);
    for (const Part& part : parts) append(found, part);
    return found;
}

}  // namespace assay
