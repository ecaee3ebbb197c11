#include "judged.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "judged_table.hpp"
#include "search_rows.hpp"
#include "tie_order.hpp"

namespace assay {

namespace {

class Finder {
public:
    Finder(const RankedRows& ranking, const JudgedRows& judged, Found& out)
        : ranking_(ranking), judged_(judged), out_(out) {}

    void find(size_t query, int64_t begin, int64_t end) {
        table_.fill(judged_, query);
        tie_lo_ = tie_end_ = begin;
        table_.each(ranking_.docs, begin, end, [&](int64_t i, int64_t judgment) {
            if (i >= tie_end_) find_tie(i, end);
            add(begin, i, judged_.grades[judgment]);
        });
    }

private:
    // The documents around `i` that share its score. Earlier groups are not walked again.
    void find_tie(int64_t i, int64_t end) {
        const double* scores = ranking_.scores;
        int64_t lo = i, hi = i + 1;
        while (lo > tie_end_ && scores_tie(scores[lo - 1], scores[i])) --lo;
        while (hi < end && scores_tie(scores[hi], scores[i])) ++hi;
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
    Found& out_;
    JudgedTable table_;
    int64_t tie_lo_ = 0, tie_end_ = 0;
};

}  // namespace

Found find_judged(const RankedRows& ranking, const JudgedRows& judged) {
    return search_rows<Finder>(ranking, judged);
}

namespace {

void count_row(const double* grades, int64_t size, std::vector<double>& sorted, GradeCounts& out) {
    sorted.resize(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) sorted[i] = grades[i] + 0.0;  // -0.0 becomes 0.0
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (auto next = sorted.begin(), first = next; first != sorted.end(); first = next) {
        while (next != sorted.end() && *next == *first) ++next;
        out.grade.push_back(*first);
        out.count.push_back(next - first);
    }
    out.offsets.push_back(static_cast<int64_t>(out.grade.size()));
}

}  // namespace

GradeCounts count_grades(const int64_t* offsets, size_t rows, const double* grades) {
    GradeCounts out;
    std::vector<double> sorted;
    out.offsets.push_back(0);
    for (size_t row = 0; row < rows; ++row) count_row(grades + offsets[row], offsets[row + 1] - offsets[row], sorted, out);
    return out;
}

}  // namespace assay
