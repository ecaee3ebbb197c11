// Exact search among sparse rows by inner product.
//
// A score is the sum of the products of the terms that both rows hold, in float64, in the order of the
// terms. Inverted lists are added up in that order, so a sum over all of a query's lists is the score.
//
// Some lists may be left out: where the largest products of all of them together are a small share of
// what the k-th document has, only documents that the other lists bring near enough to it are candidates,
// and their scores are summed from their own rows.
#pragma once

#include <cstdint>
#include <vector>

#include "hamming/search.hpp"
#include "trec/column.hpp"

namespace assay::sparse {

using hamming::Control;
using hamming::Excluded;

// Rows of terms in ascending order, each term once in a row.
template <class Weight>
struct Rows {
    const int64_t* offsets;
    const int32_t* terms;
    const Weight* weights;
    size_t count;
};

// For each query its documents by falling score, then by number. `tie_split` tells that at least one more
// document has the score of the last one.
struct Best {
    Column<int64_t> counts;
    Column<int32_t> docs;
    Column<double> scores;
    Column<uint8_t> tie_split;
};

struct Request {
    size_t k;
    bool keep_ties;  // keep every document with the k-th score
};

struct Query;

// Inverted lists of documents, which must outlive them.
template <class Weight>
class Index {
public:
    Index(const Rows<Weight>& docs, size_t n_terms);

    Best search(const Rows<double>& queries, const Request& request, const Excluded& excluded, Control control) const;

private:
    void search_block(Query& query, size_t start, size_t end, std::vector<double>& sums, std::vector<double>& dense) const;

    Rows<Weight> docs_;
    std::vector<int64_t> offsets_;   // of each term's list
    std::vector<int32_t> numbers_;   // of documents, ascending in a list
    std::vector<Weight> weights_;
    std::vector<double> largest_;    // size of a weight, of each term
};

extern template class Index<float>;
extern template class Index<double>;

}  // namespace assay::sparse
