#include "counted.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "judged_table.hpp"
#include "search_rows.hpp"
#include "tie_order.hpp"

namespace assay {

namespace {

// Up to this many judged documents in a row are counted; for more, sorting the row costs less.
constexpr size_t kCounted = 32;

// Compiled twice where the machine can choose: comparing is several times faster with AVX2.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASSAY_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define ASSAY_WIDE
#endif

}  // namespace

ASSAY_WIDE Compared compare_all(const double* scores, int64_t count, double one) {
    int64_t above = 0, equal = 0;
    for (int64_t i = 0; i < count; ++i) {
        above += scores_above(scores[i], one);
        equal += scores_tie(scores[i], one);
    }
    return {above, equal};
}

ASSAY_WIDE bool holds_any(const int32_t* docs, const int32_t* judged, int64_t count) {
    int32_t same[kAtOnce] = {};
    for (int64_t j = 0; j < count; ++j) {
        const int32_t doc = judged[j];
        for (int64_t i = 0; i < kAtOnce; ++i) same[i] |= -static_cast<int32_t>(docs[i] == doc);
    }
    int32_t any = 0;
    for (const int32_t one : same) any |= one;
    return any != 0;
}

namespace {

struct Landing {
    int64_t rank, lo, hi;
    double grade;
};

struct Hit {
    int64_t at;
    double grade;
};

class Counter {
public:
    Counter(const RankedRows& ranking, const JudgedRows& judged, Found& out)
        : ranking_(ranking), judged_(judged), out_(out) {}

    void find(size_t query, int64_t begin, int64_t end) {
        landings_.clear();
        search(query, begin, end);
        for (const Landing& landing : landings_) {
            out_.rank.push_back(landing.rank);
            out_.lo.push_back(landing.lo);
            out_.hi.push_back(landing.hi);
            out_.grade.push_back(landing.grade);
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
        for (const Hit& hit : hits_) landings_.push_back(landing_of(hit, begin, end));
        std::sort(landings_.begin(), landings_.end(),
                  [](const Landing& a, const Landing& b) { return a.rank < b.rank; });
    }

    Landing landing_of(const Hit& hit, int64_t begin, int64_t end) const {
        const double* scores = ranking_.scores;
        const double own = scores[hit.at];
        const auto [above, equal] = compare_all(scores + begin, end - begin, own);
        int64_t first = 0;  // tied documents that the tie rule puts first
        if (equal > 1) {
            const int32_t doc = ranking_.docs[hit.at];
            for (int64_t i = begin; i < end; ++i) first += scores_tie(scores[i], own) && ranking_.docs[i] < doc;
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
                landings_.push_back({static_cast<int64_t>(i + 1), static_cast<int64_t>(lo + 1),
                                     static_cast<int64_t>(hi), hit->grade});
            }
        }
    }

    const RankedRows& ranking_;
    const JudgedRows& judged_;
    Found& out_;
    JudgedTable table_;
    std::vector<Hit> hits_;
    std::vector<Landing> landings_;
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

}  // namespace

Found count_judged(const RankedRows& rows, const JudgedRows& judged) {
    return search_rows<Counter>(rows, judged);
}

int64_t first_repeat(const int64_t* offsets, size_t rows, const int32_t* docs) {
    const unsigned threads = threads_for(static_cast<size_t>(offsets[rows]));
    const std::vector<size_t> cuts = cut_rows(offsets, rows, threads);
    std::vector<int64_t> found(threads, -1);
    run_together(threads, [&](unsigned t) {
        RowSet seen;
        for (size_t row = cuts[t]; row < cuts[t + 1] && found[t] < 0; ++row) {
            seen.start(static_cast<size_t>(offsets[row + 1] - offsets[row]));
            for (int64_t i = offsets[row]; i < offsets[row + 1] && found[t] < 0; ++i) {
                if (!seen.insert(docs[i])) found[t] = i;
            }
        }
    });
    const auto first = std::find_if(found.begin(), found.end(), [](int64_t i) { return i >= 0; });
    return first == found.end() ? -1 : *first;
}

}  // namespace assay
