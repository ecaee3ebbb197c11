// The Python face of the search among sparse rows.
#include <memory>

#include "bindings/bindings.hpp"
#include "search/sparse_search.hpp"

using namespace nanobind::literals;

namespace assay {

namespace {

using Stop = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Done = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Weight>
sparse::Rows<Weight> rows_of(const In<int64_t>& offsets, const In<int32_t>& terms, const In<Weight>& weights, size_t n_terms) {
    check_offsets(offsets, terms.size());
    require(terms.size() == weights.size(), "there must be one weight for each term");
    const int32_t* term = terms.data();
    bool fits = true;
    for (size_t i = 0, count = terms.size(); i < count; ++i) fits &= term[i] >= 0 && static_cast<size_t>(term[i]) < n_terms;
    require(fits, "a term is out of range");
    return {offsets.data(), term, weights.data(), offsets.size() - 1};
}

// The arrays of the documents, and their inverted lists.
template <class Weight>
class SparseIndex {
public:
    SparseIndex(In<int64_t> offsets, In<int32_t> terms, In<Weight> weights, size_t n_terms)
        : offsets_(offsets), terms_(terms), weights_(weights), n_terms_(n_terms) {
        const auto rows = rows_of(offsets_, terms_, weights_, n_terms);
        require(rows.count < size_t{1} << 31, "too many docs");
        nb::gil_scoped_release release;
        index_ = std::make_unique<sparse::Index<Weight>>(rows, n_terms);
    }

    nb::tuple search(In<int64_t> offsets, In<int32_t> terms, In<double> weights, size_t k, bool keep_ties, In<double> floors, In<int64_t> excluded_offsets,
                     In<int64_t> excluded_docs, Stop stop, Done done) const {
        const auto queries = rows_of(offsets, terms, weights, n_terms_);
        require(k >= 1, "k must be at least 1");
        require(floors.size() == queries.count, "there must be one floor for each query");
        check(queries.count, excluded_offsets, excluded_docs, stop, done);
        sparse::Best best;
        {
            nb::gil_scoped_release release;
            best = index_->search(queries, {k, keep_ties, floors.data()}, {excluded_offsets.data(), excluded_docs.data()}, {stop.data(), done.data()});
        }
        return nb::make_tuple(to_numpy(std::move(best.counts)), to_numpy(std::move(best.docs)), to_numpy(std::move(best.scores)),
                              to_numpy(std::move(best.tie_split)));
    }

    // Adds to above, tied and before.
    void count_targets(In<int64_t> offsets, In<int32_t> terms, In<double> weights, In<int64_t> targets, In<double> scores, Done above, Done tied, Done before,
                       In<int64_t> excluded_offsets, In<int64_t> excluded_docs, Stop stop, Done done) const {
        const auto queries = rows_of(offsets, terms, weights, n_terms_);
        check(queries.count, excluded_offsets, excluded_docs, stop, done);
        for (size_t size : {targets.size(), scores.size(), above.size(), tied.size(), before.size()}) require(size == queries.count, "there must be one target for each query");
        const int64_t n_docs = static_cast<int64_t>(offsets_.size()) - 1;
        for (size_t i = 0; i < excluded_docs.size(); ++i) require(excluded_docs.data()[i] >= 0 && excluded_docs.data()[i] < n_docs, "an excluded doc is out of range");
        nb::gil_scoped_release release;
        index_->count_targets(queries, {targets.data(), scores.data(), above.data(), tied.data(), before.data()},
                              {excluded_offsets.data(), excluded_docs.data()}, {stop.data(), done.data()});
    }

    Out<double> score(In<int64_t> offsets, In<int32_t> terms, In<double> weights, In<int64_t> docs) const {
        const auto queries = rows_of(offsets, terms, weights, n_terms_);
        require(docs.size() == queries.count, "there must be one doc for each query");
        const int64_t n_docs = static_cast<int64_t>(offsets_.size()) - 1;
        for (size_t i = 0; i < docs.size(); ++i) require(docs.data()[i] < n_docs, "a doc is out of range");
        Column<double> scores(queries.count);
        index_->score(queries, docs.data(), scores.data());
        return to_numpy(std::move(scores));
    }

private:
    static void check(size_t n_queries, const In<int64_t>& excluded_offsets, const In<int64_t>& excluded_docs, const Stop& stop, const Done& done) {
        require(stop.size() >= 1 && done.size() >= 1, "stop and done must hold one number");
        check_offsets(excluded_offsets, excluded_docs.size());
        require(excluded_offsets.size() == n_queries + 1, "there must be one row of excluded docs for each query");
    }

    In<int64_t> offsets_;
    In<int32_t> terms_;
    In<Weight> weights_;
    size_t n_terms_;
    std::unique_ptr<sparse::Index<Weight>> index_;
};

template <class Weight>
void bind_index(nb::module_& module, const char* name) {
    nb::class_<SparseIndex<Weight>>(module, name)
        .def(nb::init<In<int64_t>, In<int32_t>, In<Weight>, size_t>(), "offsets"_a, "terms"_a, "weights"_a, "n_terms"_a)
        .def("search", &SparseIndex<Weight>::search, "offsets"_a, "terms"_a, "weights"_a, "k"_a, "keep_ties"_a, "floors"_a,
             "excluded_offsets"_a, "excluded_docs"_a, "stop"_a, "done"_a)
        .def("count_targets", &SparseIndex<Weight>::count_targets, "offsets"_a, "terms"_a, "weights"_a, "targets"_a, "scores"_a, "above"_a, "tied"_a,
             "before"_a, "excluded_offsets"_a, "excluded_docs"_a, "stop"_a, "done"_a)
        .def("score", &SparseIndex<Weight>::score, "offsets"_a, "terms"_a, "weights"_a, "docs"_a);
}

}  // namespace

void bind_sparse(nb::module_& module) {
    bind_index<float>(module, "SparseIndex32");
    bind_index<double>(module, "SparseIndex64");
}

}  // namespace assay
