// Canonical scores of rows, for every source that is compiled for other vector instructions: the
// exact values rounded once to float64. Doubled precision mostly tells what that is; where it does
// not, exact arithmetic does.
#pragma once

#include "exact/element_types.hpp"
#include "exact/float_sums.hpp"

namespace {

using assay::ExactRows;
using assay::Metric;
using assay::Pairs;

// The cosine of a row without direction: below every other.
constexpr double kZeroScore = -2.0;

// Whether hi is the float64 nearest to every number that is at most `error` from hi + lo.
inline bool is_sure(Pair value, double error) {
    return value.hi + (value.lo + error) == value.hi && value.hi + (value.lo - error) == value.hi;
}

// The error bound of a doubled_sum, as a share of the sizes of its terms together, below that of FloatSums. With m
// terms in a lane a sum loses less than (m + 16)² · 2^-106 of them, and the squares of differences three times that.
inline double sum_error(size_t columns) {
    const double steps = static_cast<double>(columns) / kLanes + 17.0;
    return 4.1 * steps * steps * 0x1p-106;
}

// The rows of one pair, and what is known of them.
template <class A, class B>
struct PairRows {
    const A* a;
    const B* b;
    size_t columns;
    int a_exponent, b_exponent;
    Pair a_square, b_square;

    // At least the sizes of all terms of the product together.
    double size() const { return std::sqrt(a_square.hi * b_square.hi) * (1 + 0x1p-20); }

    Pair product() const {
#if defined(__FMA__)
        constexpr int sane = 200;  // so that no product of elements or of norms is beyond float64
        if (std::abs(a_exponent) < sane && std::abs(b_exponent) < sane) {
            const double unit = power_of_two(a_exponent + b_exponent), most = size() * unit, back = power_of_two(-a_exponent - b_exponent);
            FloatSums<1, false, A, B> sums(&most);
            sums.add_all(a, &b, columns);
            const Pair total = sums.total(0);
            return {total.hi * back, total.lo * back};
        }
#endif
        return doubled_sum<false>(a, Scale(a_exponent), b, Scale(b_exponent), columns);
    }

    // What scaled products may lose below the range of float64; those of floats never do.
    double underflow() const { return kBothFloat<A, B> ? 0.0 : static_cast<double>(columns) * 0x1p-900; }
};

// The functions below tell whether they are sure of the last bit of the score that they find.
// Where a sum leaves that open, they look at the lowest bits of the elements: its exact value and
// the one found are both multiples of 2^lattice, as all terms are, so that an error below that is 0.

inline bool scaled_back(double value, int exponent, double& score) {
    score = exponent == 0 ? value : std::ldexp(value, exponent);
    return exponent == 0 || value == 0.0 || std::fabs(score) >= 0x1p-1022;  // else it was rounded twice
}

template <class A, class B>
bool find_distance(const PairRows<A, B>& rows, double& score) {
    const int exponent = rows.a_exponent > rows.b_exponent ? rows.a_exponent : rows.b_exponent;
    const Scale scale(exponent);
    const Pair square = doubled_sum<true>(rows.a, scale, rows.b, scale, rows.columns);
    const double error = sum_error(rows.columns) * square.hi + rows.underflow();
    if (!is_sure(square, error)) {
        const int a_lowest = lowest_bit(rows.a, rows.columns), b_lowest = lowest_bit(rows.b, rows.columns);
        const int lattice = 2 * ((a_lowest < b_lowest ? a_lowest : b_lowest) - exponent);
        if (error >= std::ldexp(1.0, lattice)) return false;
    }
    return scaled_back(0.0 - square.hi, 2 * exponent, score);
}

// Whether a dot product with less than this error has none.
template <class A, class B>
bool is_exact(const PairRows<A, B>& rows, double error) {
    const int lattice = lowest_bit(rows.a, rows.columns) - rows.a_exponent + lowest_bit(rows.b, rows.columns) - rows.b_exponent;
    return error < std::ldexp(1.0, lattice);
}

template <class A, class B>
bool find_product(const PairRows<A, B>& rows, Pair dot, double error, double& score) {
    return (is_sure(dot, error) || is_exact(rows, error)) && scaled_back(dot.hi + 0.0, rows.a_exponent + rows.b_exponent, score);
}

template <class A, class B>
bool find_cosine(const PairRows<A, B>& rows, Pair dot, double error, double& score) {
    const Pair cosine = cosine_of(dot, rows.a_square, rows.b_square);
    score = cosine.hi + 0.0;
    const double share = float_sum_error(rows.columns), tiny = rows.underflow() * 0x1p200;
    if (is_sure(cosine, 2.2 * share + tiny)) return true;
    if (!is_exact(rows, error)) return false;
    return dot.hi == 0.0 || is_sure(cosine, 1.2 * share * std::fabs(cosine.hi) + tiny);
}

template <class A, class B>
bool find_score(Metric metric, const PairRows<A, B>& rows, double& score) {
    if (metric == Metric::l2) return find_distance(rows, score);
    if (rows.a_square.hi * rows.b_square.hi == 0.0) {  // a row of zeros
        score = metric == Metric::cosine ? kZeroScore : 0.0;
        return true;
    }
    const Pair dot = rows.product();
    const double error = float_sum_error(rows.columns) * rows.size() + rows.underflow();
    return metric == Metric::dot ? find_product(rows, dot, error, score) : find_cosine(rows, dot, error, score);
}

template <class A, class B>
PairRows<A, B> pair_of(const ExactRows& queries, size_t q, const ExactRows& docs, size_t d) {
    const size_t columns = queries.columns;
    return {static_cast<const A*>(queries.rows) + q * columns,
            static_cast<const B*>(docs.rows) + d * columns,
            columns,
            queries.exponents[q],
            docs.exponents[d],
            {queries.norm_hi[q], queries.norm_lo[q]},
            {docs.norm_hi[d], docs.norm_lo[d]}};
}

template <class A, class B>
double score_of(Metric metric, const ExactRows& queries, size_t q, const ExactRows& docs, size_t d) {
    double score;
    return find_score(metric, pair_of<A, B>(queries, q, docs, d), score) ? score : assay::exact_score(metric, queries, q, docs, d);
}

template <class A, class B>
void score_all(Metric metric, const ExactRows& queries, const ExactRows& docs, const Pairs& pairs, double* scores) {
    for (size_t i = 0; i < pairs.count; ++i) scores[i] = score_of<A, B>(metric, queries, pairs.queries[i], docs, pairs.docs[i]);
}

// Scores of floats, which are never scaled, up to kMost pairs at a time: sums of one row with several, then
// all quotients, then what is sure of them. Documents that were not measured are, when their turn comes; none
// of these is zero.
class FloatScores {
public:
    FloatScores(Metric metric, const ExactRows& queries, const ExactRows& docs)
        : metric_(metric), queries_(queries), docs_(docs), share_(float_sum_error(docs.columns)), places_(places_of(docs)),
          room_(docs.element_type == ElementType::wide ? 0 : places_ * docs.columns) {}

    void score(const Pairs& pairs, double* scores) {
        for (size_t from = 0; from < pairs.count; from += count_) {
            gather({pairs.queries + from, pairs.docs + from, pairs.count - from});
            multiply(pairs.docs + from, pairs.count - from);
            finish(scores + from);
        }
    }

private:
    static constexpr size_t kMost = 128, kRoomBytes = 128 * 1024;

    // A document that had its turn lately.
    struct CachedRow {
        size_t doc = static_cast<size_t>(-1), turn = 0;
        const float* row;
        double hi, lo;
    };

    // How many documents are known at a time, a power of two; those that are widened need room.
    static size_t places_of(const ExactRows& docs) {
        size_t places = kMost;
        while (docs.element_type != ElementType::wide && places > kMostRows && places * docs.columns * sizeof(float) > kRoomBytes) places /= 2;
        return places;
    }

    CachedRow& place_of(size_t doc) { return cache_[doc & (places_ - 1)]; }

    // Takes as many pairs as there is room for.
    void gather(const Pairs& pairs) {
        const size_t most = pairs.count < kMost ? pairs.count : kMost;
        if (docs_.exponents == nullptr) {
            know(pairs.docs, most);
        } else {
            for (count_ = 0; count_ < most; ++count_) take_measured(pairs.docs[count_]);
        }
        for (size_t i = 0; i < count_; ++i) {
            const size_t query = pairs.queries[i];
            a_[i] = static_cast<const float*>(queries_.rows) + query * queries_.columns;
            a_hi_[i] = queries_.norm_hi[query];
            a_lo_[i] = queries_.norm_lo[query];
        }
    }

    void take_measured(size_t doc) {
        b_[count_] = static_cast<const float*>(docs_.rows) + doc * docs_.columns;
        b_hi_[count_] = docs_.norm_hi[doc];
        b_lo_[count_] = docs_.norm_lo[doc];
    }

    // Takes documents until two of them would share a place, and measures those that are not known.
    void know(const uint32_t* docs, size_t most) {
        CachedRow* fresh[kMost];
        size_t n_fresh = 0;
        ++turn_;
        for (count_ = 0; count_ < most; ++count_) {
            const size_t doc = docs[count_];
            CachedRow& cached = place_of(doc);
            if (cached.doc != doc && cached.turn == turn_) break;
            cached.turn = turn_;
            if (cached.doc == doc) continue;
            cached.doc = doc;
            fresh[n_fresh++] = &cached;
        }
        for (size_t i = 0; i < n_fresh; i += kMostRows) {
            for (size_t next = i + kMostRows; next < i + 2 * kMostRows && next < n_fresh; ++next) expect_row(fresh[next]->doc);
            measure(fresh + i, n_fresh - i < kMostRows ? n_fresh - i : kMostRows);
        }
        for (size_t i = 0; i < count_; ++i) {
            const CachedRow& cached = place_of(docs[i]);
            b_[i] = cached.row;
            b_hi_[i] = cached.hi;
            b_lo_[i] = cached.lo;
        }
    }

    // A memory far away takes as long to send a row as two or three scores take.
    void expect_row(size_t doc) const {
        const size_t bytes = docs_.columns * kElementBytes[static_cast<size_t>(docs_.element_type)];
        const char* row = static_cast<const char*>(docs_.rows) + doc * bytes;
        for (size_t byte = 0; byte < bytes; byte += 64) ASSAY_PREFETCH(row + byte);
    }

    void measure(CachedRow* const* fresh, size_t count) {
        const float* rows[kMostRows] = {};
        double sizes[kMostRows], hi[kMostRows], lo[kMostRows];
        for (size_t i = 0; i < count; ++i) {
            float* room = room_.data() + (docs_.element_type == ElementType::wide ? 0 : static_cast<size_t>(fresh[i] - cache_) * docs_.columns);
            rows[i] = fresh[i]->row = widened_rows(docs_.rows, docs_.element_type, fresh[i]->doc, 1, docs_.columns, room);
            // at least the sum of squares, and not much more: float32 was off by less than that
            sizes[i] = docs_.squares[fresh[i]->doc] * (1.0 + 0x1p-22 * static_cast<double>(docs_.columns + 64));
        }
        sum_floats<true>(rows[0], rows, count, docs_.columns, sizes, hi, lo);
        for (size_t i = 0; i < count; ++i) {
            fresh[i]->hi = hi[i];
            fresh[i]->lo = lo[i];
        }
    }

    // The products of all pairs: of those that follow each other and share a row, several at once.
    void multiply(const uint32_t* docs, size_t left) {
        for (size_t i = 0; i < count_; i += kWide) {
            put(sizes_ + i, root_of(at(a_hi_ + i) * at(b_hi_ + i)) * (1 + 0x1p-20));
        }
        for (size_t i = 0; i < count_;) {
            const size_t of_query = run_of(a_, i), of_doc = run_of(b_, i), count = of_query < of_doc ? of_doc : of_query;
            for (size_t next = i + count; docs_.exponents != nullptr && next < i + 2 * count && next < left; ++next) {
                if (docs[next] != docs[next - 1]) expect_row(docs[next]);
            }
            if (of_query < of_doc) {
                sum_floats<false>(b_[i], a_ + i, count, docs_.columns, sizes_ + i, hi_ + i, lo_ + i);
            } else {
                sum_floats<false>(a_[i], b_ + i, count, docs_.columns, sizes_ + i, hi_ + i, lo_ + i);
            }
            i += count;
        }
    }

    // How many pairs from this one on have the same row, as far as they are multiplied together.
    size_t run_of(const float* const* rows, size_t first) const {
        size_t end = first + 1;
        while (end < count_ && end < first + kMostRows && rows[end] == rows[first]) ++end;
        return end - first;
    }

    void finish(double* scores) {
        if (metric_ == Metric::cosine) divide();
        if (metric_ == Metric::l2) subtract();
        for (size_t i = 0; i < count_; ++i) {
            const Pair value = {hi_[i], lo_[i]};
            const double sign = metric_ == Metric::l2 ? -1.0 : 1.0;
            scores[i] = is_sure(value, error_of(i)) ? sign * value.hi + 0.0 : score_alone(i);
        }
    }

    // The error bound of a value: of a cosine, products of rows of length 1 and half of both squares.
    double error_of(size_t i) const {
        if (metric_ == Metric::cosine) return 2.2 * share_;
        return share_ * (metric_ == Metric::dot ? sizes_[i] : 2.2 * (a_hi_[i] + b_hi_[i]));
    }

    void divide() {
        for (size_t i = 0; i < count_; i += kWide) {
            put(i, cosine_of<Wide>({at(hi_ + i), at(lo_ + i)}, {at(a_hi_ + i), at(a_lo_ + i)}, {at(b_hi_ + i), at(b_lo_ + i)}));
        }
    }

    // (a − b)² = a² + b² − 2ab
    void subtract() {
        for (size_t i = 0; i < count_; i += kWide) {
            const PairOf<Wide> squares = two_sum(at(a_hi_ + i), at(b_hi_ + i)), rest = two_sum(squares.hi, -2.0 * at(hi_ + i));
            const Wide low = squares.lo + (at(a_lo_ + i) + at(b_lo_ + i)) - 2.0 * at(lo_ + i);
            put(i, two_sum(rest.hi, rest.lo + low));
        }
    }

    double score_alone(size_t i) const {
        const int32_t exponent = 0;
        const ExactRows query = {a_[i], false, 1, docs_.columns, &exponent, &a_hi_[i], &a_lo_[i]};
        const ExactRows doc = {b_[i], false, 1, docs_.columns, &exponent, &b_hi_[i], &b_lo_[i]};
        return score_of<float, float>(metric_, query, 0, doc, 0);
    }

    static Wide at(const double* numbers) { return widened(numbers); }
    static void put(double* numbers, Wide wide) { std::memcpy(numbers, &wide, sizeof wide); }
    void put(size_t i, PairOf<Wide> value) {
        put(hi_ + i, value.hi);
        put(lo_ + i, value.lo);
    }

    Metric metric_;
    const ExactRows& queries_;
    const ExactRows& docs_;
    double share_;
    size_t places_;
    Scratch room_;
    CachedRow cache_[kMost];
    size_t count_ = 0, turn_ = 0;
    const float *a_[kMost], *b_[kMost];
    // kMost is a multiple of kWide: numbers beyond the last pair are computed with, and not used
    double a_hi_[kMost] = {}, a_lo_[kMost] = {}, b_hi_[kMost] = {}, b_lo_[kMost] = {}, sizes_[kMost] = {}, hi_[kMost] = {}, lo_[kMost] = {};
};

void score(Metric metric, const ExactRows& queries, const ExactRows& docs, const Pairs& pairs, double* scores) {
    if (!queries.doubled && !docs.doubled) {
        FloatScores(metric, queries, docs).score(pairs, scores);
    } else if (queries.doubled) {
        docs.doubled ? score_all<double, double>(metric, queries, docs, pairs, scores)
                     : score_all<double, float>(metric, queries, docs, pairs, scores);
    } else {
        score_all<float, double>(metric, queries, docs, pairs, scores);
    }
}

template <class T>
void square_norms_of(const ExactRows& rows, size_t from, size_t to, double* hi, double* lo) {
    for (size_t row = from; row < to; ++row) {
        const T* at = static_cast<const T*>(rows.rows) + row * rows.columns;
        const Scale scale(rows.exponents[row]);
        const Pair square = doubled_sum<false>(at, scale, at, scale, rows.columns);
        hi[row] = square.hi;
        lo[row] = square.lo;
    }
}

void square_norms(const ExactRows& rows, size_t from, size_t to, double* hi, double* lo) {
    rows.doubled ? square_norms_of<double>(rows, from, to, hi, lo)
                 : square_norms_of<float>(rows, from, to, hi, lo);
}

}  // namespace
