// The Python face of score_ranks: shapes and targets are checked here, the kernel then assumes.
#include "bindings/bindings.hpp"

#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>

#include "search/score_ranks.hpp"

using namespace nanobind::literals;

namespace assay {

namespace {

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
using Targets = In<int64_t>;
using Counts = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
ScoreRows<T> rows_of(const Matrix<T>& scores) {
    require(scores.shape(1) >= 1 && scores.shape(1) < size_t{1} << 31, "columns must be from 1 to 2^31 - 1");
    require(scores.shape(0) == 0 || scores.shape(1) == 1 || scores.stride(1) == 1, "the scores of a row must stand side by side");
    require(scores.shape(0) <= 1 || scores.stride(0) >= 0, "rows must not run backwards");
    return {scores.data(), scores.shape(0), scores.shape(1), static_cast<size_t>(scores.stride(0))};
}

void check_targets(const Targets& targets, size_t columns) {
    for (size_t r = 0; r < targets.size(); ++r) {
        require(targets.data()[r] >= -1 && targets.data()[r] < static_cast<int64_t>(columns), "target out of range");
    }
}

template <class T>
nb::tuple count_of(Matrix<T> scores, Targets targets, Counts above, Counts tied, Counts before, std::optional<Counts> best) {
    const ScoreRows<T> rows = rows_of(scores);
    const bool same = targets.size() == rows.rows && above.size() == rows.rows && tied.size() == rows.rows &&
                      before.size() == rows.rows && (!best || best->size() == rows.rows);
    require(same, "scores, targets and counts must have one length");
    check_targets(targets, rows.columns);
    BadCell bad;
    {
        nb::gil_scoped_release release;
        bad = count_score_ranks(rows, targets.data(), {above.data(), tied.data(), before.data(), best ? best->data() : nullptr});
    }
    return nb::make_tuple(bad.row, bad.column);
}

template <class T>
void bind_for(nb::module_& module) {
    module.def("count_score_ranks", &count_of<T>, "scores"_a.noconvert(), "targets"_a.noconvert(), "above"_a.noconvert(),
               "tied"_a.noconvert(), "before"_a.noconvert(), "best"_a.noconvert().none());
}

}  // namespace

void bind_score_ranks(nb::module_& module) {
    bind_for<float>(module);
    bind_for<double>(module);
}

}  // namespace assay
