// Coarse search: candidates are found by products of 8 or 16 bits, whose certified bound adds to that of the
// float32 product, then scored again in float32, and decided as ever. docs/exactness.md proves it.
#pragma once

#include <functional>
#include <vector>

#include "search/coarse_kernels.hpp"
#include "search/float32_search.hpp"

namespace assay {

// The kernels for this machine.
const CoarseKernels& coarse_kernels();

constexpr size_t kMostCoarseColumns = 16384;  // so that sums stay within 32 bits

inline size_t panels_of(size_t count) { return (count + kPanel - 1) / kPanel; }

// The rotation of rows: signs of columns, and an axis that is taken off. `axis` is of length 1, or 0 for none.
class Rotation {
public:
    Rotation() = default;  // not at all
    Rotation(const float* signs, const float* axis, size_t columns);

    Turn view() const { return {signs_.data(), axis_.empty() ? nullptr : axis_.data()}; }

private:
    std::vector<float> signs_, axis_;
};

// Documents quantised, in panels; the rest of the last panel is filled up with zeros. Codes of 8 bits are
// raised by 128. Rows that are stored narrower are widened panel by panel; they are measured on the way
// where that is asked for.
struct StoredRows {
    const void* rows;
    ElementType element_type;
    size_t count, columns;
};
void coarsen(const CoarseProduct& product, const StoredRows& rows, Turn turn, unsigned threads, uint8_t* panels, const CoarseRows& out,
             const Measuring* measuring = nullptr);

// The coarse rows of a block of documents, with what its metric makes of them: a document scores
// bias + lean · (lean of the query) + factor · (step of the query) · sum, off by at most
//     bound + reach · (residual of the query) + spread · (size of the query).
class CoarseDocs {
public:
    // `rows` are those of the documents but for their codes, which lie in panels.
    CoarseDocs(const DocRows& docs, const uint8_t* panels, const CoarseRows& rows, const float* signs, const float* axis);
    // Nothing is known of them yet.
    CoarseDocs(const DocRows& docs, const CoarseProduct& product, Rotation turned);

    // `rows` are those of some documents from `first` on.
    void fill(size_t first, size_t count, const CoarseRows& rows);

    const DocRows& docs;
    const CoarseProduct& product;
    const uint8_t* panels = nullptr;
    const Rotation turned;
    std::vector<float> factor, spread, bias, lean, reach, off;  // per document, padded to whole panels
    std::vector<float> panel_reach, panel_off;
    float widest_reach = 0.0f, widest_spread = 0.0f, widest_off = 0.0f;
    double all_reach = 0.0, all_spread = 0.0, n_filled = 0.0;
    bool shifted = false;  // whether some have a bias or lean
    bool sane = true;  // else some bound is so large that candidates are not worth finding this way

private:
    void fill_document(size_t doc, float step, float residual, float norm, float lean);
};

// The codes of some panels: first, and how many.
using CodesOf = std::function<const uint8_t*(size_t, size_t)>;

// Documents in 16 bits. Codes are made of as many at a time as are met, and not kept: that takes about as
// long as packing them for the float32 product.
class WideDocs {
public:
    explicit WideDocs(const DocRows& docs) : docs(docs, coarse_kernels().wide, Rotation()) {}

    const uint8_t* codes_of(size_t first_panel, size_t n_panels);

    CoarseDocs docs;

private:
    std::vector<uint8_t> codes_;
    std::vector<float> numbers_;
};

bool suits_16_bits(size_t n_queries, size_t k, const DocRows& docs, Range range);

// Give the result of `top.scan`; by 16 bits first where these suit, or in any case.
void scan_wide(TopK& top, Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Range range, Control control,
               Start start = {});
void scan_16_bits(TopK& top, Metric metric, const QueryRows& queries, const DocRows& docs, const Excluded& excluded, Range range,
                  Control control, Start start = {});

// Gives the result of `top.scan`.
void scan_coarse(TopK& top, Metric metric, const QueryRows& queries, const CoarseDocs& docs, const Excluded& excluded, Range range,
                 Control control);

// Give the counts of `count_targets`; by 16 bits first where these suit, or in any case.
void count_wide_targets(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets, Range range,
                        const TargetCounts& counts, Control control);
void count_by_16_bits(Metric metric, const QueryRows& queries, const DocRows& docs, const Targets& targets, Range range,
                      const TargetCounts& counts, Control control);

// Gives the counts of `count_targets`.
void count_coarse_targets(Metric metric, const QueryRows& queries, const CoarseDocs& docs, const Targets& targets, Range range,
                          const TargetCounts& counts, Control control);

}  // namespace assay
