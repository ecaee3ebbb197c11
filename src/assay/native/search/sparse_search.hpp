// Exact search among sparse rows by inner product.
//
// A score is the sum of the products of the terms that both rows hold, in float64, in the order of the
// terms. It is summed from a document's row, or from lists where many
// documents are scored.
//
// Products are added up in 16 bits, in units of the query, and what rounding may hide is added to each. So
// these sums are at least the scores, by a few units for each term that both rows hold. A term of many
// documents has a column of all of them, with weights as whole multiples of 1/32767 of the largest one.
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
    bool keep_ties;        // keep every document with the k-th score
    const double* floors;  // of each query: documents that score less are not wanted
};

// Of each query the document (−1: none) and its score, and the documents that score higher, the same, or the
// same with a lower number. Documents that are not among these rows have a number beyond theirs.
struct Targets {
    const int64_t* docs;
    const double* scores;
    int64_t* above;
    int64_t* tied;
    int64_t* before;
};

struct Query;
struct Dense;
struct Space;

// Inverted lists of documents, which must outlive them.
template <class Weight>
class Index {
public:
    Index(const Rows<Weight>& docs, size_t n_terms);

    Best search(const Rows<double>& queries, const Request& request, const Excluded& excluded, Control control) const;

    void count_targets(const Rows<double>& queries, const Targets& targets, const Excluded& excluded, Control control) const;

    // The score of one document for each query; 0 where its number is −1.
    void score(const Rows<double>& queries, const int64_t* docs, double* scores) const;

private:
    bool is_frequent(size_t term) const;
    Query read_query(const Rows<double>& queries, size_t row) const;
    void add_block(const Query& query, size_t block, Space& space) const;
    void fetch_row(size_t doc) const;
    double score_row(const Dense& dense, size_t doc) const;
    void score_docs(const Query& query, size_t block, Space& space) const;
    void offer_docs(Query& query, size_t block, Space& space) const;
    void decide_block(Query& query, size_t block, Space& space) const;

    Rows<Weight> docs_;
    size_t n_terms_;
    bool signs_ = false;             // some weight is negative
    std::vector<double> largest_;    // size of a weight, of each term
    std::vector<int64_t> lengths_;   // of the lists
    std::vector<size_t> frequent_;   // where the column of a frequent term begins
    Column<int16_t> codes_;          // of frequent terms, for each document
    Column<Weight> frequent_weights_;
    std::vector<size_t> bases_;      // where the lists of each block of documents begin
    Column<uint32_t> starts_;        // of each other term in a block, from its base on; and the end of the last
    Column<uint16_t> numbers_;       // of documents, from the first of the block on
    Column<Weight> weights_;         // theirs
};

extern template class Index<float>;
extern template class Index<double>;

}  // namespace assay::sparse
