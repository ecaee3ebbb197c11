// The Python face of the exact search. Blocks keep the arrays alive that they point into.
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>

#include "bindings/bindings.hpp"
#include "exact/tie_order.hpp"
#include "search/coarse_search.hpp"
#include "search/float32_search.hpp"
#include "trec/parallel.hpp"

namespace assay {

namespace {

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Changed = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

ExactRows rows_of(const AnyMatrix& rows, const In<int32_t>& exponents) {
    const bool doubled = rows.dtype() == nb::dtype<double>();
    require(doubled || rows.dtype() == nb::dtype<float>(), "rows must be float32 or float64");
    require(exponents.size() == rows.shape(0), "scored exponent for each row");
    return {rows.data(), doubled, rows.shape(0), rows.shape(1), exponents.data(), nullptr, nullptr};
}

ExactRows rows_of(const AnyMatrix& rows, const In<int32_t>& exponents, const In<double>& hi, const In<double>& lo) {
    ExactRows exact = rows_of(rows, exponents);
    require(hi.size() == exact.count && lo.size() == exact.count, "scored norm for each row");
    exact.norm_hi = hi.data();
    exact.norm_lo = lo.data();
    return exact;
}

// Queries of either kind below.
class QueryView {
public:
    const QueryRows& view() const { return view_; }

protected:
    QueryRows view_ = {};
};

class QueryBlock : public QueryView {
public:
    QueryBlock(AnyMatrix exact, In<int32_t> exponents, In<double> norm_hi, In<double> norm_lo, Matrix<float> rows,
               In<double> weight, In<double> shift)
        : exact_(exact), exponents_(exponents), norm_hi_(norm_hi), norm_lo_(norm_lo), rows_(rows), weight_(weight), shift_(shift) {
        view_ = {rows_of(exact, exponents, norm_hi, norm_lo), rows.data(), weight.data(), shift.data()};
        require(rows.shape(0) == view_.exact.count && rows.shape(1) == view_.exact.columns, "rows of scored shape");
        require(weight.size() == view_.exact.count && shift.size() == view_.exact.count, "scored weight and shift for each query");
    }

private:
    AnyMatrix exact_;
    In<int32_t> exponents_;
    In<double> norm_hi_, norm_lo_;
    Matrix<float> rows_;
    In<double> weight_, shift_;
};

Metric metric_of(int metric) {
    require(metric >= 0 && metric <= 2, "metric must be 0 (cosine), 1 (dot) or 2 (l2)");
    return static_cast<Metric>(metric);
}

// Queries of usual sizes, measured and prepared at once: as Python does it for all sizes, but sooner.
class RawQueries : public QueryView {
public:
    RawQueries(Matrix<float> rows, int metric)
        : exact_(rows), exponents_(rows.shape(0), 0), norms_(2 * rows.shape(0)), numbers_(2 * rows.shape(0)), rows_(rows.size()) {
        const size_t count = rows.shape(0);
        view_.exact = {rows.data(), false, count, rows.shape(1), exponents_.data(), norms_.data(), norms_.data() + count};
        search_kernels().square_norms(view_.exact, 0, count, norms_.data(), norms_.data() + count);
        measure();
        if (!odd_) prepare(metric_of(metric));
        view_.rows = rows_.data();
        view_.weight = numbers_.data();
        view_.shift = numbers_.data() + count;
    }
    // Whether some are zero, not finite, or of other sizes: then they are no use.
    bool needs_rescaling() const { return odd_; }
    // The exponents of the smallest and of the largest norm.
    std::pair<int, int> sizes() const { return {smallest_, largest_}; }

private:
    static constexpr double kLeast = 0x1p-60, kMost = 0x1p60;

    void measure() {
        for (size_t query = 0; query < view_.exact.count; ++query) {
            const double square = norms_[query];
            odd_ |= !(square > kLeast && square < kMost);
            const int exponent = odd_ ? 0 : std::ilogb(std::sqrt(square)) + 1;
            smallest_ = query == 0 ? exponent : std::min(smallest_, exponent);
            largest_ = query == 0 ? exponent : std::max(largest_, exponent);
        }
    }

    void prepare(Metric metric) {
        const size_t count = view_.exact.count, columns = view_.exact.columns;
        for (size_t query = 0; query < count; ++query) {
            const double norm = std::sqrt(norms_[query]);
            const double factor = metric == Metric::l2 ? std::ldexp(1.0, -largest_) : 1.0 / norm;
            numbers_[query] = metric == Metric::cosine ? 1.0 : metric == Metric::dot ? factor : factor / 2;
            numbers_[count + query] = metric == Metric::l2 ? norms_[query] : 0.0;
            const float* row = exact_.data() + query * columns;
            for (size_t i = 0; i < columns; ++i) rows_[query * columns + i] = static_cast<float>(row[i] * factor);
        }
    }

    Matrix<float> exact_;
    std::vector<int32_t> exponents_;
    std::vector<double> norms_, numbers_;
    std::vector<float> rows_;
    bool odd_ = false;
    int smallest_ = 0, largest_ = 0;
};

// Documents of either kind below.
class DocView {
public:
    explicit DocView(const DocRows& view) : view_(view) {}
    const DocRows& view() const { return view_; }

protected:
    DocRows view_;
};

class DocBlock : public DocView {
public:
    DocBlock(AnyMatrix exact, In<int32_t> exponents, In<double> norm_hi, In<double> norm_lo, Matrix<float> rows, In<float> scale,
             In<float> bias, In<float> bound, double unit, int64_t first)
        : DocView({rows_of(exact, exponents, norm_hi, norm_lo), rows.data(), scale.data(), bias.data(), bound.data(), unit, first}),
          exact_(exact), exponents_(exponents), norm_hi_(norm_hi), norm_lo_(norm_lo), rows_(rows), scale_(scale), bias_(bias), bound_(bound) {
        const size_t count = view_.exact.count;
        require(rows.shape(0) == count && rows.shape(1) == view_.exact.columns, "rows of scored shape");
        require(scale.size() == count && bias.size() == count && bound.size() == count, "scored scale, bias and bound for each doc");
        require(count < size_t{1} << 31, "too many docs in a block");
    }

private:
    AnyMatrix exact_;
    In<int32_t> exponents_;
    In<double> norm_hi_, norm_lo_;
    Matrix<float> rows_;
    In<float> scale_, bias_, bound_;
};

ElementType element_type_of(const AnyMatrix& rows, int element_type) {
    constexpr size_t bytes[] = {4, 2, 2, 1, 1, 2, 2};
    require(element_type >= 0 && element_type < 7 && rows.itemsize() == bytes[element_type], "rows of another type");
    return static_cast<ElementType>(element_type);
}

// Elements as float32, one row after the other.
void widen_of(AnyMatrix rows, int element_type, Changed<float> wide, int threads) {
    const ElementType kind = element_type_of(rows, element_type);
    require(wide.size() == rows.size(), "scored number for each element");
    nb::gil_scoped_release release;
    const unsigned parts = rows.size() < 100000 ? 1u : static_cast<unsigned>(std::max(1, threads));
    run_together(parts, [&](unsigned part) {
        const size_t from = rows.size() * part / parts, to = rows.size() * (part + 1) / parts;
        search_kernels().widen(static_cast<const char*>(rows.data()) + from * rows.itemsize(), kind, to - from, wide.data() + from);
    });
}

// Documents as they are stored, which one scan of each of them measures.
class RawBlock : public DocView {
public:
    RawBlock(AnyMatrix rows, int element_type, int metric, float factor, float rounding, float bias_unit, int64_t first)
        : DocView({{rows.data(), false, rows.shape(0), rows.shape(1), nullptr, nullptr, nullptr, element_type_of(rows, element_type)},
                   nullptr, nullptr, nullptr, nullptr, 1.0, first}),
          rows_(rows), numbers_(4 * rows.shape(0)) {
        const size_t count = rows.shape(0);
        require(count < size_t{1} << 31, "too many docs in a block");
        float* numbers = numbers_.data();
        measuring_ = {metric_of(metric), factor, rounding, bias_unit, numbers, numbers + count, numbers + 2 * count, numbers + 3 * count, &odd_};
        view_.exact.squares = measuring_.square;
        if (view_.exact.element_type == ElementType::wide) view_.rows = static_cast<const float*>(rows.data());
        view_.scale = measuring_.scale;
        view_.bias = measuring_.bias;
        view_.bound = measuring_.bound;
        view_.measuring = &measuring_;
    }
    RawBlock(const RawBlock&) = delete;
    bool needs_rescaling() const { return odd_ != 0; }
    const Measuring& measuring() const { return measuring_; }
    // Once all are measured, scans need not do it.
    void end_measuring() { view_.measuring = nullptr; }

private:
    AnyMatrix rows_;
    Column<float> numbers_;
    volatile int32_t odd_ = 0;
    Measuring measuring_;
};

// The bound of an 8-bit product counts on the length of the axis.
void check_turn(const In<float>& axis, const In<float>& signs, size_t columns) {
    require(columns <= kMostCoarseColumns, "too many columns");
    require(signs.size() == columns && axis.size() == columns, "scored sign and scored number of the axis for each column");
    double square = 0.0;
    for (size_t i = 0; i < columns; ++i) square += static_cast<double>(axis.data()[i]) * axis.data()[i];
    require(square == 0.0 || std::fabs(square - 1.0) < 0x1p-22, "an axis of length 1, or 0");
}

// The coarse rows of documents, which must outlive it; raw ones were measured as they were quantised.
class CoarseBlock {
public:
    CoarseBlock(const DocView& docs, In<uint8_t> codes, In<float> step, In<float> residual, In<float> norm, In<float> lean, In<float> axis,
                In<float> signs)
        : codes_(codes),
          view_((check(docs.view(), codes, {&step, &residual, &norm, &lean}, axis, signs), docs.view()), codes.data(),
                {nullptr, changed(step), changed(residual), changed(norm), changed(lean)}, signs.data(), axis.data()) {}
    const CoarseDocs& view() const { return view_; }

private:
    static void check(const DocRows& docs, const In<uint8_t>& codes, std::initializer_list<const In<float>*> of_rows, const In<float>& axis,
                      const In<float>& signs) {
        const size_t count = docs.exact.count, columns = docs.exact.columns;
        check_turn(axis, signs, columns);
        require(docs.measuring == nullptr, "documents that were not measured");
        require(codes.size() == panels_of(count) * coarse_kernels().narrow.panel_bytes(columns), "codes of another shape");
        for (const In<float>* each : of_rows) require(each->size() == count, "scored step, residual, norm and lean for each doc");
    }
    // They are only read.
    static float* changed(const In<float>& array) { return const_cast<float*>(array.data()); }

    In<uint8_t> codes_;
    CoarseDocs view_;
};

nb::tuple coarsen_rows(const StoredRows& rows, const In<float>& axis, const In<float>& signs, int threads, const Measuring* measuring) {
    const size_t count = rows.count, columns = rows.columns;
    check_turn(axis, signs, columns);
    Column<uint8_t> codes(panels_of(count) * coarse_kernels().narrow.panel_bytes(columns));
    Column<float> step(count), residual(count), norm(count), lean(count);
    {
        nb::gil_scoped_release release;
        const Rotation turned(signs.data(), axis.data(), columns);
        coarsen(coarse_kernels().narrow, rows, turned.view(), static_cast<unsigned>(std::max(1, threads)), codes.data(),
                {nullptr, step.data(), residual.data(), norm.data(), lean.data()}, measuring);
    }
    return nb::make_tuple(to_numpy(std::move(codes)), to_numpy(std::move(step)), to_numpy(std::move(residual)), to_numpy(std::move(norm)),
                          to_numpy(std::move(lean)));
}

nb::tuple coarsen_of(Matrix<float> rows, In<float> axis, In<float> signs, int threads) {
    return coarsen_rows({rows.data(), ElementType::wide, rows.shape(0), rows.shape(1)}, axis, signs, threads, nullptr);
}

nb::tuple coarsen_wide(Matrix<float> rows) {
    const size_t count = rows.shape(0), columns = rows.shape(1);
    require(columns <= kMostCoarseColumns, "too many columns");
    const CoarseProduct& product = coarse_kernels().wide;
    Column<uint8_t> codes(panels_of(count) * product.panel_bytes(columns));
    Column<float> step(count), residual(count), norm(count), lean(count);
    coarsen(product, {rows.data(), ElementType::wide, count, columns}, {}, 1, codes.data(),
            {nullptr, step.data(), residual.data(), norm.data(), lean.data()});
    return nb::make_tuple(to_numpy(std::move(codes)), to_numpy(std::move(step)), to_numpy(std::move(residual)), to_numpy(std::move(norm)));
}

nb::tuple coarsen_raw(RawBlock& docs, In<float> axis, In<float> signs, int threads) {
    const ExactRows& rows = docs.view().exact;
    require(coarse_kernels().measure != nullptr, "no product of 8-bit numbers on this machine");
    nb::tuple columns_of_rows = coarsen_rows({rows.rows, rows.element_type, rows.count, rows.columns}, axis, signs, threads, &docs.measuring());
    docs.end_measuring();
    return columns_of_rows;
}

void check_match(const QueryRows& queries, const DocRows& docs) {
    require(queries.exact.columns == docs.exact.columns, "queries and docs must have the same columns");
}

void check_candidates(const In<int64_t>& offsets, const In<uint32_t>& candidates, size_t n_queries, const DocRows& docs) {
    require(offsets.size() == n_queries + 1, "scored offset more than queries");
    check_offsets(offsets, candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) require(candidates.data()[i] < docs.exact.count, "candidate out of range");
}

Range range_of(size_t from, size_t to, const DocRows& docs) {
    require(from <= to && to <= docs.exact.count, "range out of the block");
    return {from, to};
}

Control control_of(const Changed<int32_t>& stop, const Changed<int64_t>& done) {
    require(stop.size() == 1 && done.size() == 1, "stop and done hold scored number each");
    return {stop.data(), done.data()};
}

void scan_of(TopK& top, int metric, const QueryView& queries, const DocView& docs, In<int64_t> excluded_offsets, In<int64_t> excluded_docs,
             size_t from, size_t to, Changed<int32_t> stop, Changed<int64_t> done) {
    check_match(queries.view(), docs.view());
    require(top.best().size() == queries.view().exact.count, "another number of queries");
    require(excluded_offsets.size() == top.best().size() + 1, "scored offset more than queries");
    check_offsets(excluded_offsets, excluded_docs.size());
    require(search_kernels().scan != nullptr, "no fused product on this machine");
    require(docs.view().measuring == nullptr || !queries.view().exact.doubled, "documents as they are stored meet queries of floats");
    const Range range = range_of(from, to, docs.view());
    const Control control = control_of(stop, done);
    const Excluded excluded = {excluded_offsets.data(), excluded_docs.data()};
    nb::gil_scoped_release release;
    scan_wide(top, metric_of(metric), queries.view(), docs.view(), excluded, range, control);
}

void scan_coarse_of(TopK& top, int metric, const QueryBlock& queries, const CoarseBlock& docs, In<int64_t> excluded_offsets,
                    In<int64_t> excluded_docs, size_t from, size_t to, Changed<int32_t> stop, Changed<int64_t> done) {
    const DocRows& rows = docs.view().docs;
    check_match(queries.view(), rows);
    require(top.best().size() == queries.view().exact.count, "another number of queries");
    require(excluded_offsets.size() == top.best().size() + 1, "scored offset more than queries");
    check_offsets(excluded_offsets, excluded_docs.size());
    require(coarse_kernels().narrow.scan != nullptr && search_kernels().scan != nullptr, "no fused product on this machine");
    require(rows.exact.exponents != nullptr || !queries.view().exact.doubled, "documents as they are stored meet queries of floats");
    const Range range = range_of(from, to, rows);
    const Control control = control_of(stop, done);
    const Excluded excluded = {excluded_offsets.data(), excluded_docs.data()};
    nb::gil_scoped_release release;
    scan_coarse(top, metric_of(metric), queries.view(), docs.view(), excluded, range, control);
}

void decide_of(TopK& top, int metric, const QueryBlock& queries, const DocBlock& docs, In<int64_t> offsets, In<uint32_t> candidates) {
    check_match(queries.view(), docs.view());
    require(top.best().size() == queries.view().exact.count, "another number of queries");
    check_candidates(offsets, candidates, top.best().size(), docs.view());
    nb::gil_scoped_release release;
    top.decide(metric_of(metric), queries.view(), docs.view(), offsets.data(), candidates.data());
}

void seed_of(TopK& top, In<double> least) {
    require(least.size() == top.best().size(), "scored score for each query");
    top.seed(least.data());
}

void absorb_of(TopK& top, const TopK& other) {
    require(top.best().size() == other.best().size() && top.k() == other.k(), "another number of queries or k");
    nb::gil_scoped_release release;
    top.absorb(other);
}

Out<float> floors_of(const TopK& top, const QueryBlock& queries, const DocBlock& docs) {
    require(top.best().size() == queries.view().exact.count, "another number of queries");
    Column<float> floor(top.best().size());
    top.floors(queries.view(), docs.view(), floor.data());
    return to_numpy(std::move(floor));
}

// Rows of at most so many documents; and whether one more, where there is one, ties with the last.
nb::tuple result_of(TopK& top, size_t most) {
    const auto& best = top.best();
    Column<int64_t> offsets(best.size() + 1);
    Column<uint8_t> tie_split(best.size());
    Column<int32_t> docs;
    Column<double> scores;
    {
        nb::gil_scoped_release release;
        top.sort();
        offsets[0] = 0;
        for (size_t q = 0; q < best.size(); ++q) {  // documents of `seed` come last
            const auto is_document = [](const Scored& scored) { return scored.doc != kNobody; };
            const auto count = static_cast<size_t>(std::count_if(best[q].begin(), best[q].end(), is_document));
            offsets[q + 1] = offsets[q] + static_cast<int64_t>(std::min(count, most));
            tie_split[q] = count > most && scores_tie(best[q][most].score, best[q][most - 1].score);
        }
        docs = Column<int32_t>(static_cast<size_t>(offsets[best.size()]));
        scores = Column<double>(docs.size());
        for (size_t q = 0; q < best.size(); ++q) {
            const auto first = static_cast<size_t>(offsets[q]), count = static_cast<size_t>(offsets[q + 1]) - first;
            for (size_t i = 0; i < count; ++i) {
                docs[first + i] = static_cast<int32_t>(best[q][i].doc);
                scores[first + i] = best[q][i].score;
            }
        }
    }
    return nb::make_tuple(to_numpy(std::move(offsets)), to_numpy(std::move(docs)), to_numpy(std::move(scores)), to_numpy(std::move(tie_split)));
}

nb::tuple square_norms_of(AnyMatrix rows, In<int32_t> exponents, int threads) {
    const ExactRows exact = rows_of(rows, exponents);
    Column<double> hi(exact.count), lo(exact.count);
    {
        nb::gil_scoped_release release;
        const unsigned parts = exact.count * exact.columns < 100000 ? 1u : static_cast<unsigned>(std::max(1, threads));
        run_together(parts, [&](unsigned part) {
            search_kernels().square_norms(exact, exact.count * part / parts, exact.count * (part + 1) / parts, hi.data(), lo.data());
        });
    }
    return nb::make_tuple(to_numpy(std::move(hi)), to_numpy(std::move(lo)));
}

// Scores of pairs: for each query the docs candidates[offsets[q]] … candidates[offsets[q + 1]].
Out<double> pair_scores_of(int metric, const QueryBlock& queries, const DocBlock& docs, In<int64_t> offsets, In<uint32_t> candidates) {
    check_match(queries.view(), docs.view());
    check_candidates(offsets, candidates, queries.view().exact.count, docs.view());
    Column<double> scores(candidates.size());
    {
        nb::gil_scoped_release release;
        std::vector<uint32_t> rows;
        rows.reserve(candidates.size());
        for (size_t q = 0; q + 1 < offsets.size(); ++q) {
            rows.insert(rows.end(), static_cast<size_t>(offsets.data()[q + 1] - offsets.data()[q]), static_cast<uint32_t>(q));
        }
        search_kernels().score(metric_of(metric), queries.view().exact, docs.view().exact,
                               {rows.data(), candidates.data(), candidates.size()}, scores.data());
    }
    return to_numpy(std::move(scores));
}

struct TargetArrays {
    Targets targets;
    TargetCounts counts;
};

TargetArrays target_arrays(const QueryRows& queries, const In<int64_t>& targets, const In<double>& scores,
                           Changed<int64_t>& above, Changed<int64_t>& tied, Changed<int64_t>& before) {
    const size_t n = queries.exact.count;
    require(targets.size() == n && scores.size() == n, "scored target and score for each query");
    require(above.size() == n && tied.size() == n && before.size() == n, "scored count for each query");
    return {{targets.data(), scores.data()}, {above.data(), tied.data(), before.data()}};
}

void count_targets_of(int metric, const QueryBlock& queries, const DocBlock& docs, In<int64_t> targets, In<double> scores, size_t from, size_t to,
                      Changed<int64_t> above, Changed<int64_t> tied, Changed<int64_t> before, Changed<int32_t> stop, Changed<int64_t> done) {
    check_match(queries.view(), docs.view());
    require(search_kernels().scan != nullptr, "no fused product on this machine");
    const TargetArrays arrays = target_arrays(queries.view(), targets, scores, above, tied, before);
    const Range range = range_of(from, to, docs.view());
    const Control control = control_of(stop, done);
    nb::gil_scoped_release release;
    count_wide_targets(metric_of(metric), queries.view(), docs.view(), arrays.targets, range, arrays.counts, control);
}

void count_coarse_targets_of(int metric, const QueryBlock& queries, const CoarseBlock& docs, In<int64_t> targets, In<double> scores, size_t from,
                             size_t to, Changed<int64_t> above, Changed<int64_t> tied, Changed<int64_t> before, Changed<int32_t> stop,
                             Changed<int64_t> done) {
    const DocRows& rows = docs.view().docs;
    check_match(queries.view(), rows);
    require(coarse_kernels().narrow.scan != nullptr && search_kernels().scan != nullptr, "no fused product on this machine");
    const TargetArrays arrays = target_arrays(queries.view(), targets, scores, above, tied, before);
    const Range range = range_of(from, to, rows);
    const Control control = control_of(stop, done);
    nb::gil_scoped_release release;
    count_coarse_targets(metric_of(metric), queries.view(), docs.view(), arrays.targets, range, arrays.counts, control);
}

void decide_targets_of(int metric, const QueryBlock& queries, const DocBlock& docs, In<int64_t> targets, In<double> scores, In<int64_t> offsets,
                       In<uint32_t> candidates, Changed<int64_t> above, Changed<int64_t> tied, Changed<int64_t> before, int64_t weight) {
    check_match(queries.view(), docs.view());
    check_candidates(offsets, candidates, queries.view().exact.count, docs.view());
    const TargetArrays arrays = target_arrays(queries.view(), targets, scores, above, tied, before);
    nb::gil_scoped_release release;
    decide_targets(metric_of(metric), queries.view(), docs.view(), arrays.targets, offsets.data(), candidates.data(), arrays.counts, weight);
}

}  // namespace

void bind_search(nb::module_& module) {
    nb::class_<QueryView>(module, "QueryView");
    nb::class_<RawQueries, QueryView>(module, "RawQueries")
        .def(nb::init<Matrix<float>, int>())
        .def("needs_rescaling", &RawQueries::needs_rescaling)
        .def("sizes", &RawQueries::sizes);
    nb::class_<QueryBlock, QueryView>(module, "QueryBlock")
        .def(nb::init<AnyMatrix, In<int32_t>, In<double>, In<double>, Matrix<float>, In<double>, In<double>>());
    nb::class_<DocView>(module, "DocView");
    nb::class_<RawBlock, DocView>(module, "RawBlock").def(nb::init<AnyMatrix, int, int, float, float, float, int64_t>()).def("needs_rescaling", &RawBlock::needs_rescaling);
    nb::class_<DocBlock, DocView>(module, "DocBlock")
        .def(nb::init<AnyMatrix, In<int32_t>, In<double>, In<double>, Matrix<float>, In<float>, In<float>, In<float>, double, int64_t>());
    nb::class_<CoarseBlock>(module, "CoarseBlock")
        .def(nb::init<const DocView&, In<uint8_t>, In<float>, In<float>, In<float>, In<float>, In<float>, In<float>>(), nb::keep_alive<1, 2>());
    nb::class_<TopK>(module, "TopK")
        .def(nb::init<size_t, size_t, bool>())
        .def("scan", scan_of)
        .def("scan_coarse", scan_coarse_of)
        .def("decide", decide_of)
        .def("seed", seed_of)
        .def("absorb", absorb_of)
        .def("floors", floors_of)
        .def("result", result_of);
    module.def("coarsen", coarsen_of);
    module.def("coarsen_raw", coarsen_raw);
    module.def("coarsen_wide", coarsen_wide);
    module.def("coarse_rows", [] { return coarse_kernels().narrow.scan == nullptr ? size_t{0} : coarse_kernels().query_rows; });
    module.def("widen", widen_of);
    module.def("square_norms", square_norms_of);
    module.def("pair_scores", pair_scores_of);
    module.def("count_targets", count_targets_of);
    module.def("count_coarse_targets", count_coarse_targets_of);
    module.def("decide_targets", decide_targets_of);
    module.def("fused_rows", [] { return search_kernels().scan == nullptr ? size_t{0} : search_kernels().query_rows; });
}

}  // namespace assay
