// Exact search: find candidates by a float32 product with a certified margin, then decide by
// canonical scores. Python prepares the rows (assay.search.engine), these classes keep the state.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "search/kernels.hpp"

namespace assay {

// The kernels for the widest vectors of this machine, or for those the environment asks for.
const SearchKernels& search_kernels();

// A block of queries. A canonical score s is unit · weight · (s + shift) in units of the product.
struct QueryRows {
    ExactRows exact;
    const float* rows;  // for the product
    const double* weight;
    const double* shift;
};

// A block of documents; `first` is the number of its first one.
struct DocRows {
    ExactRows exact;
    const float* rows;  // for the product; null where that reads them as they are stored
    const float* scale;
    const float* bias;
    const float* bound;
    double unit;
    int64_t first;
    const Measuring* measuring = nullptr;  // where scale, bias and bound are still to be found
};

// Documents that a query must not find: docs[offsets[q]] … docs[offsets[q + 1]], ascending.
struct Excluded {
    const int64_t* offsets;
    const int64_t* docs;

    bool holds(size_t query, int64_t doc) const;
};

// Numbers that a running scan shares with the thread that waits for it.
struct Control {
    const volatile int32_t* stop;
    int64_t* done;
};

struct Range {
    size_t from, to;
};

struct Scored {
    int64_t doc;
    double score;
};

// The number of the documents of `seed`: after all others.
constexpr int64_t kNobody = std::numeric_limits<int64_t>::max();

// How a scan starts. `least`, where given, are floors: at least k documents of the block score that much.
struct Start {
    const float* least = nullptr;
    bool may_guess = true;  // where the k-th best score will stand, which is verified
};

// The best documents of each query of a block, kept over many blocks of documents.
class TopK {
public:
    TopK(size_t n_queries, size_t k, bool keep_ties) : k_(k), keep_ties_(keep_ties), best_(n_queries) {}

    void scan(Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Range range, Control control,
              Start start = {});
    // Candidates that were found in another way: docs[offsets[q]] … are numbers within the block.
    void decide(Metric metric, const QueryRows& queries, const DocRows& docs, const int64_t* offsets, const uint32_t* candidates);
    // As if k documents that nobody has scored so much, where that is a number: what scores less is not found.
    void seed(const double* least);
    // Takes over what was found in other documents.
    void absorb(const TopK& other);
    // For each query a score, in units of the product, below which no document can matter.
    void floors(const QueryRows& queries, const DocRows& docs, float* floor) const;
    void sort();

    size_t k() const { return k_; }
    const std::vector<std::vector<Scored>>& best() const { return best_; }

private:
    friend class TopKReceiver;
    friend class CoarseReceiver;
    friend class QuerySubset;
    std::vector<uint32_t> scan_once(Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Range range,
                                    Control control, Start start, std::vector<float>& certain);
    void add(size_t query, int64_t first, const uint32_t* at, const double* scores, size_t count);
    // The best with candidates of a block among them.
    std::vector<Scored> merged(size_t query, int64_t first, const uint32_t* at, const double* scores, size_t count) const;
    void trim(std::vector<Scored>& documents) const;

    size_t k_;
    bool keep_ties_;
    std::vector<std::vector<Scored>> best_;
};

// How many documents score above each query's target, tie with it, and tie with a lower number.
struct TargetCounts {
    int64_t* above;
    int64_t* tied;
    int64_t* before;
};

// The target of each query by its number and canonical score; −1 for none.
struct Targets {
    const int64_t* docs;
    const double* scores;
};

void count_targets(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets, Range range,
                   const TargetCounts& counts, Control control);
// Adds `weight` for each candidate on its side of the target.
void decide_targets(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets,
                    const int64_t* offsets, const uint32_t* candidates, const TargetCounts& counts, int64_t weight);

}  // namespace assay
