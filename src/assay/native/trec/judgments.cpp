#include "trec/judgments.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "exact/tie_order.hpp"
#include "trec/parallel.hpp"

namespace assay {

// Compiled twice where the machine can choose: comparing is several times faster with AVX2.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASSAY_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define ASSAY_WIDE
#endif

ASSAY_WIDE ScoreCounts compare_all(const double* scores, int64_t count, double score) {
    int64_t above = 0, equal = 0;
    for (int64_t i = 0; i < count; ++i) {
        above += scores_above(scores[i], score);
        equal += scores_tie(scores[i], score);
    }
    return {above, equal};
}

constexpr int64_t kAtOnce = 16;

// Whether one of kAtOnce documents is among the `count` judged ones.
ASSAY_WIDE bool holds_any(const int32_t* docs, const int32_t* judged, int64_t count) {
    int32_t same[kAtOnce] = {};
    for (int64_t j = 0; j < count; ++j) {
        const int32_t doc = judged[j];
        for (int64_t i = 0; i < kAtOnce; ++i) same[i] |= -static_cast<int32_t>(docs[i] == doc);
    }
    int32_t any = 0;
    for (const int32_t bits : same) any |= bits;
    return any != 0;
}

namespace {

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

// Adds the hits of the rows that follow.
inline void append(Hits& hits, const Hits& more) {
    const int64_t before = hits.offsets[hits.offsets.size() - 1];
    for (size_t i = 1; i < more.offsets.size(); ++i) hits.offsets.push_back(before + more.offsets[i]);
    hits.rank.append(more.rank.data(), more.rank.size());
    hits.lo.append(more.lo.data(), more.lo.size());
    hits.hi.append(more.hi.data(), more.hi.size());
    hits.grade.append(more.grade.data(), more.grade.size());
}

// Searcher is made for each thread from (ranking, judged, hits) and has find(query, begin, end), which adds
// to `hits` the hits of one judged query in its row, documents `begin` to `end` of the ranking.
template <class Searcher>
Hits search_rows(const RankedRows& ranking, const JudgedRows& judged) {
    const auto row_of = [&](size_t query) { return static_cast<size_t>(judged.rows[query]); };
    std::vector<int64_t> work(judged.count + 1, 0);  // documents before each query
    for (size_t query = 0; query < judged.count; ++query) {
        const size_t row = row_of(query);
        work[query + 1] = work[query] + (row < ranking.rows ? ranking.offsets[row + 1] - ranking.offsets[row] : 0);
    }
    const unsigned threads = threads_for(static_cast<size_t>(work[judged.count]));
    const std::vector<size_t> cuts = cut_rows(work.data(), judged.count, threads);
    std::vector<Hits> parts(threads);
    run_together(threads, [&](unsigned t) {
        Hits& hits = parts[t];
        Searcher searcher(ranking, judged, hits);
        hits.offsets.push_back(0);
        for (size_t query = cuts[t]; query < cuts[t + 1]; ++query) {
            const int64_t size = work[query + 1] - work[query];
            if (size > 0 && judged.offsets[query] != judged.offsets[query + 1]) {
                const int64_t begin = ranking.offsets[row_of(query)];
                searcher.find(query, begin, begin + size);
            }
            hits.offsets.push_back(static_cast<int64_t>(hits.rank.size()));
        }
    });
    for (unsigned t = 1; t < threads; ++t) append(parts[0], parts[t]);
    return std::move(parts[0]);
}

// Finds the hits of sorted rows.
class Finder {
public:
    Finder(const RankedRows& ranking, const JudgedRows& judged, Hits& out)
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
    Hits& out_;
    JudgedTable table_;
    int64_t tie_lo_ = 0, tie_end_ = 0;
};

// Up to this many judged documents in a row are counted; for more, sorting the row costs less.
constexpr size_t kCounted = 32;

struct RankedHit {
    int64_t rank, lo, hi;
    double grade;
};

struct Hit {
    int64_t at;
    double grade;
};

// Finds the hits of rows that are in no order: counted, where sorting the whole row would cost more.
class Counter {
public:
    Counter(const RankedRows& ranking, const JudgedRows& judged, Hits& out)
        : ranking_(ranking), judged_(judged), out_(out) {}

    void find(size_t query, int64_t begin, int64_t end) {
        ranked_.clear();
        search(query, begin, end);
        for (const RankedHit& hit : ranked_) {
            out_.rank.push_back(hit.rank);
            out_.lo.push_back(hit.lo);
            out_.hi.push_back(hit.hi);
            out_.grade.push_back(hit.grade);
        }
    }

private:
    void search(size_t query, int64_t begin, int64_t end) {
        table_.fill(judged_, query);
        hits_.clear();
        table_.each(ranking_.docs, begin, end,
                    [&](int64_t i, int64_t judgment) { hits_.push_back({i, judged_.grades[judgment]}); });
        hits_.size() <= kCounted ? count(begin, end) : sort(begin, end);
    }

    void count(int64_t begin, int64_t end) {
        for (const Hit& hit : hits_) ranked_.push_back(rank_of(hit, begin, end));
        std::sort(ranked_.begin(), ranked_.end(),
                  [](const RankedHit& a, const RankedHit& b) { return a.rank < b.rank; });
    }

    RankedHit rank_of(const Hit& hit, int64_t begin, int64_t end) const {
        const double* scores = ranking_.scores;
        const double score = scores[hit.at];
        const auto [above, equal] = compare_all(scores + begin, end - begin, score);
        int64_t first = 0;  // tied documents that the tie rule puts first
        if (equal > 1) {
            const int32_t doc = ranking_.docs[hit.at];
            for (int64_t i = begin; i < end; ++i) first += scores_tie(scores[i], score) && ranking_.docs[i] < doc;
        }
        return {above + first + 1, above + 1, above + equal, hit.grade};
    }

    void sort(int64_t begin, int64_t end) {
        order_.resize(static_cast<size_t>(end - begin));
        std::iota(order_.begin(), order_.end(), begin);
        const double* scores = ranking_.scores;
        const int32_t* docs = ranking_.docs;
        std::sort(order_.begin(), order_.end(), [=](int64_t a, int64_t b) {
            return ranks_before(scores[a], docs[a], scores[b], docs[b]);
        });
        place_hits(begin, end);
    }

    // Walks the sorted row; hits_ is in row order, so a grade is found by bisection.
    void place_hits(int64_t begin, int64_t end) {
        const auto size = static_cast<size_t>(end - begin);
        for (size_t lo = 0, hi = 0; lo < size; lo = hi) {
            while (hi < size && scores_tie(ranking_.scores[order_[hi]], ranking_.scores[order_[lo]])) ++hi;
            for (size_t i = lo; i < hi; ++i) {
                const auto hit = std::lower_bound(hits_.begin(), hits_.end(), order_[i],
                                                  [](const Hit& h, int64_t at) { return h.at < at; });
                if (hit == hits_.end() || hit->at != order_[i]) continue;
                ranked_.push_back({static_cast<int64_t>(i + 1), static_cast<int64_t>(lo + 1), static_cast<int64_t>(hi), hit->grade});
            }
        }
    }

    const RankedRows& ranking_;
    const JudgedRows& judged_;
    Hits& out_;
    JudgedTable table_;
    std::vector<Hit> hits_;
    std::vector<RankedHit> ranked_;
    std::vector<int64_t> order_;
};

// The documents of one row. A slot counts only if it carries this row's stamp, so that nothing
// has to be cleared between rows.
class RowSet {
public:
    void start(size_t count) {
        int bits = 10;
        while ((size_t{1} << bits) < 4 * count) ++bits;
        const bool worn = ++stamp_ == 0;
        if (slots_.size() >> bits == 0 || worn) {
            slots_.assign(std::max(slots_.size(), size_t{1} << bits), Slot{});
            stamp_ = 1;
        }
        mask_ = slots_.size() - 1;
    }

    // False if the document is there already.
    bool insert(int32_t doc) {
        size_t at = (static_cast<uint32_t>(doc) * uint64_t{0x9E3779B97F4A7C15}) >> 32 & mask_;
        while (slots_[at].stamp == stamp_) {
            if (slots_[at].doc == doc) return false;
            at = (at + 1) & mask_;
        }
        slots_[at] = {doc, stamp_};
        return true;
    }

private:
    struct Slot {
        int32_t doc = 0;
        uint32_t stamp = 0;
    };
    std::vector<Slot> slots_;
    size_t mask_ = 0;
    uint32_t stamp_ = 0;
};

// Counts the grades of a row, if all are small whole numbers, as nearly all are.
bool count_small(const double* grades, int64_t size, GradeCounts& out) {
    constexpr int past = 16;
    int64_t counts[past] = {};
    for (int64_t i = 0; i < size; ++i) {
        if (!(grades[i] >= 0 && grades[i] < past)) return false;
        const int grade = static_cast<int>(grades[i]);
        if (grade != grades[i]) return false;
        ++counts[grade];
    }
    for (int grade = past; grade-- > 0;) {
        if (counts[grade] == 0) continue;
        out.grade.push_back(grade);
        out.count.push_back(counts[grade]);
    }
    return true;
}

void sort_and_count(const double* grades, int64_t size, std::vector<double>& sorted, GradeCounts& out) {
    sorted.resize(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) sorted[i] = grades[i] + 0.0;  // -0.0 becomes 0.0
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (auto next = sorted.begin(), first = next; first != sorted.end(); first = next) {
        while (next != sorted.end() && *next == *first) ++next;
        out.grade.push_back(*first);
        out.count.push_back(next - first);
    }
}

}  // namespace

Hits find_judged(const RankedRows& ranking, const JudgedRows& judged) {
    return search_rows<Finder>(ranking, judged);
}

Hits count_judged(const RankedRows& rows, const JudgedRows& judged) {
    return search_rows<Counter>(rows, judged);
}

int64_t first_repeat(const int64_t* offsets, size_t rows, const int32_t* docs) {
    const unsigned threads = threads_for(static_cast<size_t>(offsets[rows]));
    const std::vector<size_t> cuts = cut_rows(offsets, rows, threads);
    std::vector<int64_t> repeats(threads, -1);
    run_together(threads, [&](unsigned t) {
        RowSet seen;
        for (size_t row = cuts[t]; row < cuts[t + 1] && repeats[t] < 0; ++row) {
            seen.start(static_cast<size_t>(offsets[row + 1] - offsets[row]));
            for (int64_t i = offsets[row]; i < offsets[row + 1] && repeats[t] < 0; ++i) {
                if (!seen.insert(docs[i])) repeats[t] = i;
            }
        }
    });
    const auto first = std::find_if(repeats.begin(), repeats.end(), [](int64_t i) { return i >= 0; });
    return first == repeats.end() ? -1 : *first;
}

GradeCounts count_grades(const int64_t* offsets, size_t rows, const double* grades) {
    GradeCounts out;
    std::vector<double> sorted;
    out.offsets.push_back(0);
    for (size_t row = 0; row < rows; ++row) {
        const double* begin = grades + offsets[row];
        const int64_t size = offsets[row + 1] - offsets[row];
        if (!count_small(begin, size, out)) sort_and_count(begin, size, sorted, out);
        out.offsets.push_back(static_cast<int64_t>(out.grade.size()));
    }
    return out;
}

}  // namespace assay
