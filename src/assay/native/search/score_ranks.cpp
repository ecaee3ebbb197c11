// The loops below are plain, so that the compiler makes vectors of them: once for any machine, and
// on x86 again for AVX2 and AVX-512. All they do is count, so the width cannot change a result.
#include "search/score_ranks.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "exact/tie_order.hpp"
#include "search/cpu.hpp"
#include "trec/compiler.hpp"

namespace assay {

namespace {

// As wide as a score, so that a vector of comparisons is a vector of counts.
template <class T>
using Count = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

template <class T>
struct Tally {
    Count<T> above = 0, equal = 0, bad = 0;
};

template <class T>
ASSAY_INLINE void tally_block(const T* scores, size_t count, T target, Tally<T>& tally) {
    constexpr T largest = std::numeric_limits<T>::max();
    Count<T> above = 0, equal = 0, bad = 0;
    for (size_t i = 0; i < count; ++i) {
        const T score = scores[i];
        above += scores_above(score, target);
        equal += scores_tie(score, target);
        bad += !(score <= largest);  // +Inf, and NaN, which is in no relation to any number
    }
    tally.above += above;
    tally.equal += equal;
    tally.bad += bad;
}

template <class T>
ASSAY_INLINE Count<T> count_equal(const T* scores, size_t count, T score) {
    Count<T> equal = 0;
    for (size_t i = 0; i < count; ++i) equal += scores_tie(scores[i], score);
    return equal;
}

// The highest score. Several running maxima, because one would wait for itself; the last block
// may overlap the one before, as no score counts twice in a maximum.
template <class T>
ASSAY_INLINE T highest(const T* scores, size_t count) {
    constexpr size_t lanes = 128 / sizeof(T);
    if (count < lanes) return *std::max_element(scores, scores + count);
    T top[lanes];
    std::copy(scores, scores + lanes, top);
    for (size_t i = lanes; i < count; i += lanes) {
        const T* block = scores + std::min(i, count - lanes);
        for (size_t lane = 0; lane < lanes; ++lane) top[lane] = scores_above(block[lane], top[lane]) ? block[lane] : top[lane];
    }
    for (size_t half = lanes / 2; half > 0; half /= 2) {
        for (size_t lane = 0; lane < half; ++lane) top[lane] = scores_above(top[lane + half], top[lane]) ? top[lane + half] : top[lane];
    }
    return top[0];
}

template <class T>
ASSAY_INLINE int64_t first_equal(const T* scores, size_t from, T score) {
    while (!scores_tie(scores[from], score)) ++from;
    return static_cast<int64_t>(from);
}

// Counts a row block by block and, while a block is in the nearest cache, finds its highest score.
// Asks for what stands 8 KB ahead before each block: counting would otherwise keep the memory
// waiting. `end` is the end of all rows; they mostly follow each other.
template <class T>
ASSAY_INLINE Tally<T> tally(const T* scores, size_t count, T target, const T* end, int64_t* best) {
    constexpr size_t block = 2048 / sizeof(T), ahead = 8192 / sizeof(T), line = 64 / sizeof(T);
    Tally<T> tally;
    T top = scores[0];
    size_t top_at = 0;
    for (size_t at = 0; at < count; at += block) {
        const size_t size = std::min(block, count - at);
        const auto rest = static_cast<size_t>(end - (scores + at));
        for (size_t i = ahead; i < std::min(rest, ahead + size); i += line) prefetch(scores + at + i);
        tally_block(scores + at, size, target, tally);
        if (best == nullptr) continue;
        const T high = highest(scores + at, size);
        top_at = scores_above(high, top) ? at : top_at;
        top = scores_above(high, top) ? high : top;
    }
    if (best != nullptr && tally.bad == 0) *best = first_equal(scores, top_at, top);
    return tally;
}

template <class T>
int64_t first_bad(const T* scores, size_t count) {
    const T* bad = std::find_if(scores, scores + count, [](T score) { return !(score <= std::numeric_limits<T>::max()); });
    return bad - scores;
}

template <class T>
ASSAY_INLINE BadCell count_rows(const ScoreRows<T>& rows, const int64_t* targets, const RankCounts& counts) {
    const T* end = rows.rows == 0 ? rows.scores : rows.scores + (rows.rows - 1) * rows.stride + rows.columns;
    for (size_t r = 0; r < rows.rows; ++r) {
        const T* scores = rows.scores + r * rows.stride;
        const auto row = static_cast<int64_t>(r);
        const bool has_target = targets[r] >= 0;
        const size_t place = has_target ? static_cast<size_t>(targets[r]) : 0;
        const T target = scores[place];
        const Tally<T> all = tally(scores, rows.columns, target, end, counts.best == nullptr ? nullptr : counts.best + r);
        if (all.bad != 0) return {row, first_bad(scores, rows.columns)};
        if (has_target && target < std::numeric_limits<T>::lowest()) return {row, targets[r]};
        const int64_t before = all.equal > 1 ? int64_t{count_equal(scores, place, target)} : 0;
        counts.above[r] = has_target ? int64_t{all.above} : -1;
        counts.tied[r] = has_target ? int64_t{all.equal} - 1 : -1;
        counts.before[r] = has_target ? before : -1;
    }
    return {};
}

#if defined(ASSAY_X86_KERNELS)

template <class T>
__attribute__((target("avx2"))) BadCell count_avx2(const ScoreRows<T>& rows, const int64_t* targets, const RankCounts& counts) {
    return count_rows(rows, targets, counts);
}

template <class T>
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))) BadCell count_avx512(const ScoreRows<T>& rows, const int64_t* targets,
                                                                                  const RankCounts& counts) {
    return count_rows(rows, targets, counts);
}

template <class T>
BadCell count_widest(const ScoreRows<T>& rows, const int64_t* targets, const RankCounts& counts) {
    const Simd simd = selected_simd();
    if (simd == Simd::avx512) return count_avx512(rows, targets, counts);
    if (simd == Simd::avx2) return count_avx2(rows, targets, counts);
    return count_rows(rows, targets, counts);
}

#else

template <class T>
BadCell count_widest(const ScoreRows<T>& rows, const int64_t* targets, const RankCounts& counts) {
    return count_rows(rows, targets, counts);
}

#endif

}  // namespace

BadCell count_score_ranks(const ScoreRows<float>& rows, const int64_t* targets, const RankCounts& counts) {
    return count_widest(rows, targets, counts);
}

BadCell count_score_ranks(const ScoreRows<double>& rows, const int64_t* targets, const RankCounts& counts) {
    return count_widest(rows, targets, counts);
}

}  // namespace assay
