// The Python face of the Hamming search.
#include "bindings/bindings.hpp"
#include "hamming/search.hpp"

using namespace nanobind::literals;

namespace assay {

namespace {

using RowsIn = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using LongsIn = In<int64_t>;
using Stop = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Done = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

hamming::Rows rows_of(const RowsIn& rows) { return {rows.data(), rows.shape(0), rows.shape(1)}; }

hamming::Control control_of(const Stop& stop, const Done& done) {
    require(stop.size() >= 1 && done.size() >= 1, "stop and done must hold one number");
    return {stop.data(), done.data()};
}

void check_rows(const RowsIn& queries, const RowsIn& docs, size_t bits) {
    require(bits >= 1 && bits <= hamming::largest_bits, "bits must lie from 1 to 65535");
    require(queries.shape(1) == (bits + 7) / 8 && docs.shape(1) == (bits + 7) / 8, "rows must hold ⌈bits / 8⌉ bytes");
    require(docs.shape(0) < size_t{1} << 31, "too many docs");
}

void check_excluded(const LongsIn& offsets, const LongsIn& docs, size_t n_queries) {
    require(offsets.size() == n_queries + 1 && offsets.data()[0] == 0, "excluded offsets must start with 0, one row for each query");
    for (size_t q = 0; q < n_queries; ++q) require(offsets.data()[q] <= offsets.data()[q + 1], "excluded offsets must not fall");
    require(static_cast<size_t>(offsets.data()[n_queries]) == docs.size(), "excluded offsets must end at the number of docs");
}

nb::tuple find_nearest_codes(RowsIn queries, RowsIn docs, size_t bits, size_t k, bool keep_ties, int64_t first_doc,
                             LongsIn excluded_offsets, LongsIn excluded_docs, Stop stop, Done done) {
    check_rows(queries, docs, bits);
    require(k >= 1, "k must be at least 1");
    require(first_doc >= 0 && first_doc + static_cast<int64_t>(docs.shape(0)) < int64_t{1} << 31, "doc number out of range");
    check_excluded(excluded_offsets, excluded_docs, queries.shape(0));
    const hamming::Control control = control_of(stop, done);
    hamming::Nearest nearest;
    {
        nb::gil_scoped_release release;
        nearest = hamming::find_nearest(rows_of(queries), rows_of(docs), {bits, k, keep_ties, first_doc},
                                        {excluded_offsets.data(), excluded_docs.data()}, control);
    }
    return nb::make_tuple(to_numpy(std::move(nearest.counts)), to_numpy(std::move(nearest.docs)),
                          to_numpy(std::move(nearest.distances)), to_numpy(std::move(nearest.tie_split)));
}

void count_code_distances(RowsIn queries, RowsIn docs, size_t bits, Counts counts, Stop stop, Done done) {
    check_rows(queries, docs, bits);
    require(counts.shape(0) == queries.shape(0) && counts.shape(1) == bits + 1, "counts must be queries × (bits + 1)");
    const hamming::Control control = control_of(stop, done);
    nb::gil_scoped_release release;
    hamming::count_distances(rows_of(queries), rows_of(docs), bits, counts.data(), control);
}

}  // namespace

void bind_hamming(nb::module_& module) {
    module.def("find_nearest_codes", &find_nearest_codes, "queries"_a, "docs"_a, "bits"_a, "k"_a, "keep_ties"_a, "first_doc"_a,
               "excluded_offsets"_a, "excluded_docs"_a, "stop"_a, "done"_a);
    module.def("count_code_distances", &count_code_distances, "queries"_a, "docs"_a, "bits"_a, "counts"_a, "stop"_a, "done"_a);
}

}  // namespace assay
