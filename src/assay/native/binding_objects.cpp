// Dictionaries, tuples and lists of Python as columns; see python_objects.hpp.
#include "python_objects.hpp"

#include <algorithm>

#include "arrays.hpp"
#include "binding_parts.hpp"
#include "dict_join.hpp"

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

// (query, doc, value) tuples, or (query, doc) with the value 1.
class TupleWalk {
public:
    TupleWalk(PyObject* rows, Py_ssize_t width, NumberReader& numbers) : rows_(rows), width_(width), numbers_(numbers) {}

    bool take(size_t begin, size_t count) {
        for (size_t i = 0; i < count; ++i) {
            PyObject* row = PyList_GetItem(rows_, static_cast<Py_ssize_t>(begin + i));
            if (!PyTuple_CheckExact(row) || PyTuple_Size(row) != width_) return false;
            gather(row, i);
        }
        if (!query_ids.number(query_, count, queries.extend(count))) return false;
        if (width_ == 3) return lines.add(doc_, value_, count, numbers_);
        std::fill_n(lines.values.extend(count), count, 1.0);
        return lines.doc_ids.number(doc_, count, lines.docs.extend(count));
    }

    TextNumbers query_ids;
    Column<int32_t> queries;
    DocLines lines;

private:
    void gather(PyObject* row, size_t i) {
        query_[i] = PyTuple_GetItem(row, 0);
        doc_[i] = PyTuple_GetItem(row, 1);
        prefetch_text_object(doc_[i]);
        if (width_ < 3) return;
        value_[i] = PyTuple_GetItem(row, 2);
        prefetch(value_[i]);
    }

    PyObject* rows_;
    Py_ssize_t width_;
    NumberReader& numbers_;
    PyObject *query_[kGathered], *doc_[kGathered], *value_[kGathered];
};

nb::object number_tuples(nb::list rows, int width, nb::tuple number_types, bool truths) {
    require(width == 2 || width == 3, "width must be 2 or 3");
    NumberReader numbers(number_types.ptr(), truths);
    TupleWalk walk(rows.ptr(), width, numbers);
    const auto count = static_cast<size_t>(PyList_Size(rows.ptr()));
    for (size_t begin = 0; begin < count; begin += kGathered) {
        if (!kAlone || !walk.take(begin, std::min(count - begin, kGathered))) return nb::none();
    }
    return nb::make_tuple(to_numpy(walk.query_ids.take_blob()), to_numpy(walk.query_ids.take_offsets()),
                          to_numpy(walk.lines.doc_ids.take_blob()), to_numpy(walk.lines.doc_ids.take_offsets()),
                          to_numpy(std::move(walk.queries)), to_numpy(std::move(walk.lines.docs)),
                          to_numpy(std::move(walk.lines.values)));
}

nb::object join_rows(nb::list rows, nb::list judged, In<int64_t> judged_row, nb::tuple number_types, int ties, bool float32) {
    require(ties >= -1 && ties <= 1, "ties must be -1, 0 or 1");
    require(judged_row.size() == static_cast<size_t>(PyList_Size(rows.ptr())), "each row needs the number of its judged row");
    for (size_t i = 0; i < judged_row.size(); ++i) {
        require(judged_row.data()[i] >= -1 && judged_row.data()[i] < PyList_Size(judged.ptr()), "judged row out of range");
    }
    DictJoin join(number_types.ptr(), Ties(ties), float32);
    if (!join.run(rows.ptr(), judged.ptr(), judged_row.data())) return nb::none();
    DocRows& read = join.judged;
    const nb::tuple judgments = nb::make_tuple(
        to_numpy(read.lines.doc_ids.take_blob()), to_numpy(read.lines.doc_ids.take_offsets()),
        to_numpy(std::move(read.offsets)), to_numpy(std::move(read.lines.docs)), to_numpy(std::move(read.lines.values)));
    Found& found = join.found;
    const nb::tuple hits = nb::make_tuple(to_numpy(std::move(found.offsets)), to_numpy(std::move(found.rank)), to_numpy(std::move(found.lo)),
                                          to_numpy(std::move(found.hi)), to_numpy(std::move(found.grade)));
    return nb::make_tuple(judgments, hits, to_numpy(std::move(join.scores)), to_numpy(std::move(join.seen)), join.only_judged, join.constant);
}

}  // namespace

void bind_objects(nb::module_& module) {
    module.def("number_rows", &number_rows, "rows"_a, "number_types"_a, "truths"_a);
    module.def("join_rows", &join_rows, "rows"_a, "judged"_a, "judged_row"_a, "number_types"_a, "ties"_a, "float32"_a);
    module.def("number_texts", &number_texts, "texts"_a);
    module.def("number_tuples", &number_tuples, "rows"_a, "width"_a, "number_types"_a, "truths"_a);
}

}  // namespace assay
