// The Python face of the search among tokens.
#include "bindings/bindings.hpp"
#include "search/token_search.hpp"

using namespace nanobind::literals;

namespace assay {

namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Changed = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

TokenRows rows_of(const Matrix& rows, const In<int64_t>& offsets) {
    check_offsets(offsets, rows.shape(0));
    require(rows.shape(0) < size_t{1} << 32, "too many tokens at a time");
    return {rows.data(), rows.shape(1), offsets.data(), offsets.size() - 1};
}

void find_of(Matrix query_tokens, In<int64_t> query_offsets, In<float> signs, In<uint8_t> codes, In<float> step, In<int64_t> offsets, size_t from,
             size_t to, nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> scores, Changed<double> by_norm, Changed<double> by_residual,
             Changed<int32_t> stop, Changed<int64_t> done) {
    const TokenRows queries = rows_of(query_tokens, query_offsets);
    check_offsets(offsets, step.size());
    require(coarse_kernels().scan_tokens != nullptr, "no product of 8-bit numbers on this machine");
    require(queries.columns <= kMostCoarseColumns && signs.size() == queries.columns, "one sign for each column");
    require(codes.size() == panels_of(step.size()) * coarse_kernels().narrow.panel_bytes(queries.columns), "codes of another shape");
    require(from <= to && to < offsets.size(), "range out of the documents");
    require(scores.shape(0) == queries.count && scores.shape(1) == to - from, "one score for each pair");
    require(by_norm.size() == queries.count && by_residual.size() == queries.count, "one bound for each query");
    require(stop.size() == 1 && done.size() == 1, "stop and done hold one number each");
    nb::gil_scoped_release release;
    find_tokens(queries, signs.data(), codes.data(), step.data(), offsets.data(), {from, to}, scores.data(), by_norm.data(), by_residual.data(),
                {stop.data(), done.data()});
}

void score_of(Matrix query_tokens, In<int64_t> query_offsets, Matrix doc_tokens, In<int64_t> doc_offsets, In<int64_t> pairs, In<int64_t> candidates,
              Changed<double> scores, Changed<int32_t> stop) {
    const TokenRows queries = rows_of(query_tokens, query_offsets), docs = rows_of(doc_tokens, doc_offsets);
    require(queries.columns == docs.columns, "queries and docs must have the same columns");
    require(pairs.size() == queries.count + 1 && scores.size() == candidates.size() && stop.size() == 1, "one row of candidates for each query");
    check_offsets(pairs, candidates.size());
    for (size_t query = 0; query < queries.count; ++query) {
        for (int64_t i = pairs.data()[query]; i < pairs.data()[query + 1]; ++i) {
            const int64_t doc = candidates.data()[i];
            require(doc >= 0 && static_cast<size_t>(doc) < docs.count, "candidate out of range");
            require(docs.offsets[doc] < docs.offsets[doc + 1] && queries.offsets[query] < queries.offsets[query + 1], "no score without tokens");
        }
    }
    nb::gil_scoped_release release;
    score_tokens(queries, docs, pairs.data(), candidates.data(), scores.data(), stop.data());
}

}  // namespace

void bind_tokens(nb::module_& module) {
    module.def("find_tokens", &find_of);
    module.def("score_tokens", &score_of);
}

}  // namespace assay
