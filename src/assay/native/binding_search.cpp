// The Python face of the exact search. Blocks keep the arrays alive that they point into.
#include <algorithm>

#include "arrays.hpp"
#include "binding_parts.hpp"
#include "coarse.hpp"
#include "parallel.hpp"
#include "search.hpp"

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
    require(exponents.size() == rows.shape(0), "one exponent for each row");
    return {rows.data(), doubled, rows.shape(0), rows.shape(1), exponents.data(), nullptr, nullptr};
}

ExactRows rows_of(const AnyMatrix& rows, const In<int32_t>& exponents, const In<double>& hi, const In<double>& lo) {
    ExactRows exact = rows_of(rows, exponents);
    require(hi.size() == exact.count && lo.size() == exact.count, "one norm for each row");
    exact.norm_hi = hi.data();
    exact.norm_lo = lo.data();
    return exact;
}

class QueryBlock {
public:
    QueryBlock(AnyMatrix exact, In<int32_t> exponents, In<double> norm_hi, In<double> norm_lo, Matrix<float> rows,
               In<double> weight, In<double> shift)
        : exact_(exact), exponents_(exponents), norm_hi_(norm_hi), norm_lo_(norm_lo), rows_(rows), weight_(weight), shift_(shift),
          view_{rows_of(exact, exponents, norm_hi, norm_lo), rows.data(), weight.data(), shift.data()} {
        require(rows.shape(0) == view_.exact.count && rows.shape(1) == view_.exact.columns, "rows of one shape");
        require(weight.size() == view_.exact.count && shift.size() == view_.exact.count, "one weight and shift for each query");
    }
    const QueryRows& view() const { return view_; }

private:
    AnyMatrix exact_;
    In<int32_t> exponents_;
    In<double> norm_hi_, norm_lo_;
    Matrix<float> rows_;
    In<double> weight_, shift_;
    QueryRows view_;
};

class DocBlock {
public:
    DocBlock(AnyMatrix exact, In<int32_t> exponents, In<double> norm_hi, In<double> norm_lo, Matrix<float> rows, In<float> scale,
             In<float> bias, In<float> bound, double unit, int64_t first)
        : exact_(exact), exponents_(exponents), norm_hi_(norm_hi), norm_lo_(norm_lo), rows_(rows), scale_(scale), bias_(bias), bound_(bound),
          view_{rows_of(exact, exponents, norm_hi, norm_lo), rows.data(), scale.data(), bias.data(), bound.data(), unit, first} {
        const size_t count = view_.exact.count;
        require(rows.shape(0) == count && rows.shape(1) == view_.exact.columns, "rows of one shape");
        require(scale.size() == count && bias.size() == count && bound.size() == count, "one scale, bias and bound for each doc");
        require(count < size_t{1} << 31, "too many docs in a block");
    }
    const DocRows& view() const { return view_; }

private:
    AnyMatrix exact_;
    In<int32_t> exponents_;
    In<double> norm_hi_, norm_lo_;
    Matrix<float> rows_;
    In<float> scale_, bias_, bound_;
    DocRows view_;
};

// The coarse rows of a DocBlock, which must outlive it.
class CoarseBlock {
public:
    CoarseBlock(const DocBlock& docs, In<uint8_t> codes, In<float> step, In<float> residual, In<float> norm, In<float> signs)
        : codes_(codes), signs_(signs),
          view_((check(docs.view(), codes, step, residual, norm, signs), docs.view()), codes.data(), step.data(), residual.data(), norm.data(),
                signs.data()) {}
    const CoarseDocs& view() const { return view_; }

private:
    static void check(const DocRows& docs, const In<uint8_t>& codes, const In<float>& step, const In<float>& residual, const In<float>& norm,
                      const In<float>& signs) {
        const size_t count = docs.exact.count, columns = docs.exact.columns;
        require(columns <= kMostCoarseColumns, "too many columns");
        require(codes.size() == panels_of(count) * kPanel * steps_of(columns) * kStep, "codes of another shape");
        require(step.size() == count && residual.size() == count && norm.size() == count, "one step, residual and norm for each doc");
        require(signs.size() == columns, "one sign for each column");
    }

    In<uint8_t> codes_;
    In<float> signs_;
    CoarseDocs view_;
};

nb::tuple coarsen_of(Matrix<float> rows, In<float> signs, int threads) {
    const size_t count = rows.shape(0), columns = rows.shape(1);
    require(signs.size() == columns, "one sign for each column");
    require(columns <= kMostCoarseColumns, "too many columns");
    Column<uint8_t> codes(panels_of(count) * kPanel * steps_of(columns) * kStep);
    Column<float> step(count), residual(count), norm(count);
    {
        nb::gil_scoped_release release;
        coarsen(rows.data(), count, columns, signs.data(), static_cast<unsigned>(std::max(1, threads)), codes.data(), step.data(),
                residual.data(), norm.data());
    }
    return nb::make_tuple(to_numpy(std::move(codes)), to_numpy(std::move(step)), to_numpy(std::move(residual)), to_numpy(std::move(norm)));
}

Metric metric_of(int metric) {
    require(metric >= 0 && metric <= 2, "metric must be 0 (cosine), 1 (dot) or 2 (l2)");
    return static_cast<Metric>(metric);
}

void check_match(const QueryRows& queries, const DocRows& docs) {
    require(queries.exact.columns == docs.exact.columns, "queries and docs must have the same columns");
}

void check_candidates(const In<int64_t>& offsets, const In<uint32_t>& candidates, size_t n_queries, const DocRows& docs) {
    require(offsets.size() == n_queries + 1, "one offset more than queries");
    check_offsets(offsets, candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) require(candidates.data()[i] < docs.exact.count, "candidate out of range");
}

Range range_of(size_t from, size_t to, const DocRows& docs) {
    require(from <= to && to <= docs.exact.count, "range out of the block");
    return {from, to};
}

Control control_of(const Changed<int32_t>& stop, const Changed<int64_t>& done) {
    require(stop.size() == 1 && done.size() == 1, "stop and done hold one number each");
    return {stop.data(), done.data()};
}

void scan_of(TopK& top, int metric, const QueryBlock& queries, const DocBlock& docs, In<int64_t> excluded_offsets, In<int64_t> excluded_docs,
             size_t from, size_t to, Changed<int32_t> stop, Changed<int64_t> done) {
    check_match(queries.view(), docs.view());
    require(top.best().size() == queries.view().exact.count, "another number of queries");
    require(excluded_offsets.size() == top.best().size() + 1, "one offset more than queries");
    check_offsets(excluded_offsets, excluded_docs.size());
    require(search_kernels().scan != nullptr, "no fused product on this machine");
    const Range range = range_of(from, to, docs.view());
    const Control control = control_of(stop, done);
    const Excluded excluded = {excluded_offsets.data(), excluded_docs.data()};
    nb::gil_scoped_release release;
    top.scan(metric_of(metric), queries.view(), docs.view(), excluded, range, control);
}

void scan_coarse_of(TopK& top, int metric, const QueryBlock& queries, const CoarseBlock& docs, In<int64_t> excluded_offsets,
                    In<int64_t> excluded_docs, size_t from, size_t to, Changed<int32_t> stop, Changed<int64_t> done) {
    const DocRows& rows = docs.view().docs;
    check_match(queries.view(), rows);
    require(top.best().size() == queries.view().exact.count, "another number of queries");
    require(excluded_offsets.size() == top.best().size() + 1, "one offset more than queries");
    check_offsets(excluded_offsets, excluded_docs.size());
    require(coarse_kernels().scan != nullptr && search_kernels().scan != nullptr, "no fused product on this machine");
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
    require(least.size() == top.best().size(), "one score for each query");
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

nb::tuple result_of(TopK& top) {
    Column<int64_t> offsets;
    Column<int32_t> docs;
    Column<double> scores;
    {
        nb::gil_scoped_release release;
        top.sort();
        const auto& best = top.best();
        offsets = Column<int64_t>(best.size() + 1);
        offsets[0] = 0;
        const auto is_found = [](const Scored& one) { return one.doc != kNobody; };
        for (size_t q = 0; q < best.size(); ++q) offsets[q + 1] = offsets[q] + std::count_if(best[q].begin(), best[q].end(), is_found);
        docs = Column<int32_t>(static_cast<size_t>(offsets[best.size()]));
        scores = Column<double>(docs.size());
        size_t at = 0;
        for (const std::vector<Scored>& row : best) {
            for (const Scored& found : row) {
                if (!is_found(found)) continue;
                docs[at] = static_cast<int32_t>(found.doc);
                scores[at++] = found.score;
            }
        }
    }
    return nb::make_tuple(to_numpy(std::move(offsets)), to_numpy(std::move(docs)), to_numpy(std::move(scores)));
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
    require(targets.size() == n && scores.size() == n, "one target and score for each query");
    require(above.size() == n && tied.size() == n && before.size() == n, "one count for each query");
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
    count_targets(metric_of(metric), queries.view(), docs.view(), arrays.targets, range, arrays.counts, control);
}

void count_coarse_targets_of(int metric, const QueryBlock& queries, const CoarseBlock& docs, In<int64_t> targets, In<double> scores, size_t from,
                             size_t to, Changed<int64_t> above, Changed<int64_t> tied, Changed<int64_t> before, Changed<int32_t> stop,
                             Changed<int64_t> done) {
    const DocRows& rows = docs.view().docs;
    check_match(queries.view(), rows);
    require(coarse_kernels().scan != nullptr && search_kernels().scan != nullptr, "no fused product on this machine");
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
    nb::class_<QueryBlock>(module, "QueryBlock")
        .def(nb::init<AnyMatrix, In<int32_t>, In<double>, In<double>, Matrix<float>, In<double>, In<double>>());
    nb::class_<DocBlock>(module, "DocBlock")
        .def(nb::init<AnyMatrix, In<int32_t>, In<double>, In<double>, Matrix<float>, In<float>, In<float>, In<float>, double, int64_t>());
    nb::class_<CoarseBlock>(module, "CoarseBlock")
        .def(nb::init<const DocBlock&, In<uint8_t>, In<float>, In<float>, In<float>, In<float>>(), nb::keep_alive<1, 2>());
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
    module.def("coarse_rows", [] { return coarse_kernels().scan == nullptr ? size_t{0} : coarse_kernels().query_rows; });
    module.def("square_norms", square_norms_of);
    module.def("pair_scores", pair_scores_of);
    module.def("count_targets", count_targets_of);
    module.def("count_coarse_targets", count_coarse_targets_of);
    module.def("decide_targets", decide_targets_of);
    module.def("fused_rows", [] { return search_kernels().scan == nullptr ? size_t{0} : search_kernels().query_rows; });
}

}  // namespace assay
