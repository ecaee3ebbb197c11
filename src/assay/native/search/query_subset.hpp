// A part of the queries of a block, as a block of its own.
#pragma once

#include <vector>

#include "search/float32_search.hpp"

namespace assay {

class RowSubset {
public:
    RowSubset(const QueryRows& all, const std::vector<uint32_t>& places) {
        const size_t columns = all.exact.columns, bytes = columns * (all.exact.doubled ? sizeof(double) : sizeof(float));
        for (const uint32_t query : places) {
            const char* row = static_cast<const char*>(all.exact.rows) + query * bytes;
            exact_.insert(exact_.end(), row, row + bytes);
            rows_.insert(rows_.end(), all.rows + query * columns, all.rows + (query + 1) * columns);
            exponents_.push_back(all.exact.exponents[query]);
            norm_hi_.push_back(all.exact.norm_hi[query]);
            norm_lo_.push_back(all.exact.norm_lo[query]);
            weight_.push_back(all.weight[query]);
            shift_.push_back(all.shift[query]);
        }
        view_ = {{exact_.data(), all.exact.doubled, places.size(), columns, exponents_.data(), norm_hi_.data(), norm_lo_.data()},
                 rows_.data(), weight_.data(), shift_.data()};
    }
    RowSubset(const RowSubset&) = delete;
    RowSubset& operator=(const RowSubset&) = delete;

    const QueryRows& view() const { return view_; }

private:
    std::vector<char> exact_;
    std::vector<float> rows_;
    std::vector<int32_t> exponents_;
    std::vector<double> norm_hi_, norm_lo_, weight_, shift_;
    QueryRows view_;
};

// The same with the best documents so far, which are handed back at the end.
class QuerySubset {
public:
    QuerySubset(const QueryRows& all, const Excluded& excluded, TopK& top, const std::vector<uint32_t>& places, const std::vector<float>& floors)
        : top_(top), places_(places), part_(places.size(), top.k_, top.keep_ties_), rows_(all, places) {
        for (const uint32_t query : places) {
            docs_.insert(docs_.end(), excluded.docs + excluded.offsets[query], excluded.docs + excluded.offsets[query + 1]);
            offsets_.push_back(static_cast<int64_t>(docs_.size()));
            floors_.push_back(floors[query]);
            part_.best_[floors_.size() - 1].swap(top.best_[query]);
        }
    }
    ~QuerySubset() {
        for (size_t query = 0; query < places_.size(); ++query) top_.best_[places_[query]].swap(part_.best_[query]);
    }
    QuerySubset(const QuerySubset&) = delete;
    QuerySubset& operator=(const QuerySubset&) = delete;

    TopK& top() { return part_; }
    const QueryRows& rows() const { return rows_.view(); }
    Excluded excluded() const { return {offsets_.data(), docs_.data()}; }
    const float* floors() const { return floors_.data(); }

private:
    TopK& top_;
    const std::vector<uint32_t>& places_;
    TopK part_;
    RowSubset rows_;
    std::vector<float> floors_;
    std::vector<int64_t> docs_, offsets_ = {0};
};

}  // namespace assay
