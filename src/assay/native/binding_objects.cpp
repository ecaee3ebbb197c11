// Dictionaries, tuples and lists of Python as columns; see python_objects.hpp.
#include "python_objects.hpp"

#include <algorithm>

#include "arrays.hpp"
#include "binding_parts.hpp"

using namespace nanobind::literals;

namespace assay {

namespace {

// So many entries are gathered before they are looked at, so that their memory is there by then.
constexpr size_t kGathered = 128;

#ifdef Py_GIL_DISABLED
constexpr bool kAlone = false;  // another thread may change what is walked: the general way copies it
#else
constexpr bool kAlone = true;
#endif

struct Lines {
    TextNumbers doc_ids;
    Column<int32_t> docs;
    Column<double> values;

    bool add(PyObject* const* docs_given, PyObject* const* values_given, size_t count, NumberReader& numbers) {
        if (!doc_ids.number(docs_given, count, docs.extend(count))) return false;
        double* value = values.extend(count);
        for (size_t i = 0; i < count; ++i) {
            if (!numbers.read(values_given[i], value[i])) return false;
        }
        return true;
    }
};

// Walks one row; `next` is the row after it, if there is one.
bool walk_row(PyObject* row, PyObject* next, Lines& lines, NumberReader& numbers) {
    constexpr auto step = static_cast<Py_ssize_t>(kGathered);
    PyObject *keys[kGathered], *values[kGathered];
    Py_ssize_t at = 0;
    for (bool more = true; more;) {
        if (at + step < PyDict_Size(row)) {
            prefetch_keys(row, at + step, at + 2 * step);
        } else if (next != nullptr) {
            prefetch_keys(next, 0, step);
        }
        size_t count = 0;
        while (count < kGathered && (more = PyDict_Next(row, &at, &keys[count], &values[count]) != 0)) {
            prefetch(values[count++]);
        }
        if (!lines.add(keys, values, count, numbers)) return false;
    }
    return true;
}

nb::object number_rows(nb::list rows, nb::tuple number_types, bool truths) {
    Lines lines;
    NumberReader numbers(number_types.ptr(), truths);
    Column<int64_t> offsets;
    offsets.push_back(0);
    const Py_ssize_t count = PyList_Size(rows.ptr());
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (!kAlone || !PyDict_CheckExact(PyList_GetItem(rows.ptr(), i))) return nb::none();
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* next = i + 1 < count ? PyList_GetItem(rows.ptr(), i + 1) : nullptr;
        if (!walk_row(PyList_GetItem(rows.ptr(), i), next, lines, numbers)) return nb::none();
        offsets.push_back(static_cast<int64_t>(lines.docs.size()));
    }
    return nb::make_tuple(to_numpy(lines.doc_ids.take_blob()), to_numpy(lines.doc_ids.take_offsets()),
                          to_numpy(std::move(offsets)), to_numpy(std::move(lines.docs)), to_numpy(std::move(lines.values)));
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
    Lines lines;

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

}  // namespace

void bind_objects(nb::module_& module) {
    module.def("number_rows", &number_rows, "rows"_a, "number_types"_a, "truths"_a);
    module.def("number_texts", &number_texts, "texts"_a);
    module.def("number_tuples", &number_tuples, "rows"_a, "width"_a, "number_types"_a, "truths"_a);
}

}  // namespace assay
