// Some queries of a block by themselves.
#pragma once

#include <vector>

#include "search.hpp"

namespace assay {

class SomeRows {
public:
    SomeRows(const QueryRows& all, const std::vector<uint32_t>& chosen) {
        const size_t columns = all.exact.columns, bytes = columns * (all.exact.doubled ? sizeof(double) : sizeof(float));
        for (const uint32_t query : chosen) {
            const char* row = static_cast<const char*>(all.exact.rows) + query * bytes;
            exact_.insert(exact_.end(), row, row + bytes);
            rows_.insert(rows_.end(), all.rows + query * columns, all.rows + (query + 1) * columns);
            exponents_.push_back(all.exact.exponents[query]);
            norm_hi_.push_back(all.exact.norm_hi[query]);
            norm_lo_.push_back(all.exact.norm_lo[query]);
            weight_.push_back(all.weight[query]);
            shift_.push_back(all.shift[query]);
        }
        view_ = {{exact_.data(), all.exact.doubled, chosen.size(), columns, exponents_.data(), norm_hi_.data(), norm_lo_.data()},
                 rows_.data(), weight_.data(), shift_.data()};
    }
    SomeRows(const SomeRows&) = delete;
    SomeRows& operator=(const SomeRows&) = delete;

    const QueryRows& view() const { return view_; }

private:
    std::vector<char> exact_;
    std::vector<float> rows_;
    std::vector<int32_t> exponents_;
    std::vector<double> norm_hi_, norm_lo_, weight_, shift_;
    QueryRows view_;
};

}  // namespace assay
