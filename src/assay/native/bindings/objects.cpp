// The Python face of the readers of Python's own objects: dictionaries, tuples and lists as columns.
#include "objects/texts_and_numbers.hpp"

#include <algorithm>

#include "bindings/bindings.hpp"
#include "objects/join.hpp"

using namespace nanobind::literals;

namespace assay {

namespace {

nb::object number_rows(nb::list rows, nb::tuple number_types, bool truths) {
    DocRows read;
    NumberReader numbers(number_types.ptr(), truths);
    if (!read.read(rows.ptr(), numbers)) return nb::none();
    return nb::make_tuple(to_numpy(read.lines.doc_ids.take_blob()), to_numpy(read.lines.doc_ids.take_offsets()),
                          to_numpy(std::move(read.offsets)), to_numpy(std::move(read.lines.docs)),
                          to_numpy(std::move(read.lines.values)));
}

nb::object number_texts(nb::list texts) {
    TextNumbers ids;
    const auto count = static_cast<size_t>(PyList_Size(texts.ptr()));
    Column<int32_t> codes(count);
    PyObject* gathered[kGathered];
    for (size_t begin = 0; begin < count; begin += kGathered) {
        const size_t size = std::min(count - begin, kGathered);
        for (size_t i = 0; i < size; ++i) {
            gathered[i] = PyList_GetItem(texts.ptr(), static_cast<Py_ssize_t>(begin + i));
            prefetch_text_object(gathered[i]);
        }
        if (!kAlone || !ids.number(gathered, size, codes.data() + begin)) return nb::none();
    }
    return nb::make_tuple(to_numpy(ids.take_blob()), to_numpy(ids.take_offsets()), to_numpy(std::move(codes)));
}

nb::object number_tuples(nb::list rows, int width, nb::tuple number_types, bool truths) {
    require(width == 2 || width == 3, "width must be 2 or 3");
    NumberReader numbers(number_types.ptr(), truths);
    TupleColumns tuples(width, numbers);
    if (!tuples.take(rows.ptr())) return nb::none();
    return nb::make_tuple(to_numpy(tuples.query_ids.take_blob()), to_numpy(tuples.query_ids.take_offsets()),
                          to_numpy(tuples.lines.doc_ids.take_blob()), to_numpy(tuples.lines.doc_ids.take_offsets()),
                          to_numpy(std::move(tuples.queries)), to_numpy(std::move(tuples.lines.docs)),
                          to_numpy(std::move(tuples.lines.values)));
}

nb::tuple ids_of(TextNumbers& ids) { return nb::make_tuple(to_numpy(ids.take_blob()), to_numpy(ids.take_offsets())); }

nb::tuple joined(ObjectJoin& join) {
    DocRows& read = join.judged;
    const nb::tuple judgments = nb::make_tuple(
        to_numpy(read.lines.doc_ids.take_blob()), to_numpy(read.lines.doc_ids.take_offsets()),
        to_numpy(std::move(read.offsets)), to_numpy(std::move(read.lines.docs)), to_numpy(std::move(read.lines.values)));
    Hits& hits = join.hits;
    const nb::tuple columns = nb::make_tuple(to_numpy(std::move(hits.offsets)), to_numpy(std::move(hits.rank)), to_numpy(std::move(hits.lo)),
                                          to_numpy(std::move(hits.hi)), to_numpy(std::move(hits.grade)));
    return nb::make_tuple(judgments, columns, to_numpy(std::move(join.scores)), to_numpy(std::move(join.seen)), join.only_judged, join.constant);
}

nb::object join_rows(nb::list rows, nb::list judged, In<int64_t> judged_row, nb::tuple number_types, int ties, bool float32) {
    require(ties >= -1 && ties <= 1, "ties must be -1, 0 or 1");
    require(judged_row.size() == static_cast<size_t>(PyList_Size(rows.ptr())), "each row needs the number of its judged row");
    for (size_t i = 0; i < judged_row.size(); ++i) {
        require(judged_row.data()[i] >= -1 && judged_row.data()[i] < PyList_Size(judged.ptr()), "judged row out of range");
    }
    ObjectJoin join(number_types.ptr(), Ties(ties), float32);
    if (!join.join_rows(rows.ptr(), judged.ptr(), judged_row.data())) return nb::none();
    return joined(join);
}

nb::object join_tuples(nb::list rows, nb::list judged, int width, nb::tuple number_types, int ties, bool float32) {
    require(ties >= -1 && ties <= 1, "ties must be -1, 0 or 1");
    require(width == 2 || width == 3, "width must be 2 or 3");
    ObjectJoin join(number_types.ptr(), Ties(ties), float32);
    if (!join.join_tuples(rows.ptr(), judged.ptr(), width)) return nb::none();
    return nb::make_tuple(ids_of(join.ranked_queries), ids_of(join.judged_queries), to_numpy(std::move(join.lengths)), joined(join));
}

}  // namespace

void bind_objects(nb::module_& module) {
    module.def("number_rows", &number_rows, "rows"_a, "number_types"_a, "truths"_a);
    module.def("join_rows", &join_rows, "rows"_a, "judged"_a, "judged_row"_a, "number_types"_a, "ties"_a, "float32"_a);
    module.def("join_tuples", &join_tuples, "rows"_a, "judged"_a, "width"_a, "number_types"_a, "ties"_a, "float32"_a);
    module.def("number_texts", &number_texts, "texts"_a);
    module.def("number_tuples", &number_tuples, "rows"_a, "width"_a, "number_types"_a, "truths"_a);
}

}  // namespace assay
