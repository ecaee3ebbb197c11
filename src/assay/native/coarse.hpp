// Coarse search: candidates are found by 8-bit products, whose certified bound adds to that of the
// float32 product, then scored again in float32, and decided as ever. docs/search.md proves it.
#pragma once

#include <vector>

#include "coarse_kernels.hpp"
#include "search.hpp"

namespace assay {

// The kernels for this machine; their `scan` is null where there is none.
const CoarseKernels& coarse_kernels();

constexpr size_t kMostCoarseColumns = 16384;  // so that sums stay within 32 bits

inline size_t steps_of(size_t columns) { return (columns + kStep - 1) / kStep; }
inline size_t panels_of(size_t count) { return (count + kPanel - 1) / kPanel; }

// How rows of some columns are turned. `axis` is of length 1, or 0 for none.
class Turned {
public:
    Turned(const float* signs, const float* axis, size_t columns);

    Turn view() const { return {signs_.data(), axis_.empty() ? nullptr : axis_.data()}; }

private:
    std::vector<float> signs_, axis_;
};

// Documents quantised, in panels; the rest of the last panel is filled up with zeros. Codes are
// raised by 128. Rows that are stored narrower are widened panel by panel; they are measured on the way
// where that is asked for.
struct StoredRows {
    const void* rows;
    Stored stored;
    size_t count, columns;
};
void coarsen(const StoredRows& rows, Turn turn, unsigned threads, uint8_t* panels, const CoarseRows& out, const Measuring* measuring = nullptr);

// The coarse rows of a block of documents, with what its metric makes of them: a document scores
// bias + lean · (lean of the query) + factor · (step of the query) · sum, off by at most
//     bound + reach · (residual of the query) + spread · (size of the query).
class CoarseDocs {
public:
    // `rows` are those of the documents but for their codes, which lie in panels.
    CoarseDocs(const DocRows& docs, const uint8_t* panels, const CoarseRows& rows, const float* signs, const float* axis);

    const DocRows& docs;
    const uint8_t* panels;
    const Turned turned;
    std::vector<float> factor, spread, bias, lean, reach, off;  // per document, padded to whole panels
    std::vector<float> panel_reach, panel_off;
    bool shifted = false;  // whether some have a bias or lean
    bool sane = true;  // else some bound is so large that candidates are not worth finding this way

private:
    void fill(size_t doc, const CoarseRows& rows);
};

// The same result as `top.scan`.
void scan_coarse(TopK& top, Metric metric, const QueryRows& queries, const CoarseDocs& docs, const Excluded& excluded, Range range,
                 Control control);

// The same counts as `count_targets`.
void count_coarse_targets(Metric metric, const QueryRows& queries, const CoarseDocs& docs, const Targets& targets, Range range,
                          const TargetCounts& counts, Control control);

}  // namespace assay
