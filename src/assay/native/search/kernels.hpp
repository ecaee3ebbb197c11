// The kernels of the search, one set for each kind of vector instructions. Plain data only:
// these sources must not share an inline function with the rest of the program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay {

enum class Metric { cosine, dot, l2 };

// The type of the elements of rows in memory: float or double, or narrower than that.
enum class ElementType { wide, float16, bfloat16, int8, uint8, int16, uint16 };

// Rows as canonical scores read them: of float or of double, scaled by 2^-exponent, with their
// square norms as pairs. Without exponents they are not scaled, and norms are computed as needed;
// only such rows may be stored narrower.
struct ExactRows {
    const void* rows;
    bool doubled;
    size_t count, columns;
    const int32_t* exponents;
    const double* norm_hi;
    const double* norm_lo;
    ElementType element_type = ElementType::wide;
    const float* squares = nullptr;  // of rows without exponents: their square norms, about
};

// Numbers of documents that a scan fills in, as far as it reads them. A scan stops where one is odd: zero,
// not finite, or of a size that the product could not compare.
struct Measuring {
    Metric metric;
    float factor;    // the bound is factor · (norm + |bias|) + rounding,
    float rounding;
    float bias_unit;  // and the bias −bias_unit · norm², where the metric has one
    float* scale;
    float* bias;
    float* bound;
    float* square;
    volatile int32_t* odd;
};

// One product of a block of queries with a range of documents. The float32 score of a document is
// bias + scale · (query · row), and off by at most `bound`.
struct Scan {
    const float* queries;
    size_t n_queries, columns;
    const void* docs;
    ElementType element_type;
    const float* scale;
    const float* bias;
    const float* bound;
    const Measuring* measuring;  // null where scale, bias and bound are known
    size_t from, to;          // the range of documents
    const float* floor;       // per query, padded with +inf: what is certainly below is passed over
    const float* ceiling;     // per query, padded with +inf, or null: what is certainly above is counted,
    int64_t* above;           // here
    void* receiver;           // gets the rest: up to 32 documents from `first` on, those in the mask
    void (*receive)(void* receiver, size_t query, size_t first, const float* scores, uint32_t mask);
    void (*expect)(void* receiver, size_t query);  // this query comes soon
    void (*met)(void* receiver, double share);     // so much of the range was met; may be null
    const volatile int32_t* stop;
    int64_t* done;            // grows by queries × documents
};

struct Pairs {
    const uint32_t* queries;
    const uint32_t* docs;
    size_t count;
};

struct SearchKernels {
    size_t query_rows;  // queries are padded to a multiple of this
    void (*scan)(const Scan&);  // null where there is no fused product
    void (*square_norms)(const ExactRows&, size_t from, size_t to, double* hi, double* lo);
    // Scores of pairs: queries[i] with docs[i].
    void (*score)(Metric, const ExactRows& queries, const ExactRows& docs, const Pairs& pairs, double* scores);
    void (*widen)(const void* from, ElementType element_type, size_t count, float* to);
};

// The score of one pair in exact arithmetic: slow, and right to the last bit.
double exact_score(Metric metric, const ExactRows& queries, size_t q, const ExactRows& docs, size_t d);

const SearchKernels& plain_search_kernels();
const SearchKernels& avx2_search_kernels();
const SearchKernels& avx512_search_kernels();
const SearchKernels& neon_search_kernels();

}  // namespace assay
