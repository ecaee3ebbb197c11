// Text ids and numbers read straight from Python's objects: dictionaries, tuples, lists. Whatever is not
// plain (another type, an unclean id, a number that is not finite) ends the walk without a result: the
// caller then goes the general way, which explains the fault or knows the type.
//
// No Python code runs during a walk and the GIL is held, so borrowed references stay valid and an
// object that was met before is known by its address.
#pragma once

#include <Python.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "column.hpp"
#include "hashing.hpp"
#include "interner.hpp"

namespace assay {

inline void prefetch_text_object(PyObject* object) {
    prefetch(object);
    prefetch(reinterpret_cast<const char*>(object) + 64);
}

// The UTF-8 bytes that the object keeps; empty if it has none (half a character).
inline std::string_view utf8_of(PyObject* text) {
    Py_ssize_t size = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
    if (bytes == nullptr) PyErr_Clear();
    return bytes == nullptr ? std::string_view() : std::string_view(bytes, static_cast<size_t>(size));
}

// Whether one of eight bytes is a space or less.
inline bool has_low_byte(uint64_t word) {
    constexpr uint64_t ones = ~uint64_t{0} / 255;
    return ((word - 33 * ones) & ~word & (128 * ones)) != 0;
}

// What core/ids.py forbids: nothing at all, white space and NUL.
inline bool is_clean_id(std::string_view id) {
    size_t at = 0;
    while (at + 8 <= id.size() && !has_low_byte(load8(id.data() + at))) at += 8;
    for (; at < id.size(); ++at) {
        const char c = id[at];
        if (c == ' ' || (c >= '\t' && c <= '\r') || c == '\0') return false;
    }
    return !id.empty();
}

// Asks for the keys of a dictionary, entries begin … end-1. PyDict_Next looks into each key, one miss
// after the other, and there is no public way to know the keys before; so this peeks where CPython 3.11
// to 3.14 keep them. Nothing is decided by what it sees.
inline void prefetch_keys(PyObject* dict, Py_ssize_t begin, Py_ssize_t end) {
#if !defined(Py_GIL_DISABLED) && !defined(PYPY_VERSION) && SIZE_MAX > UINT32_MAX
    static const bool known = Py_Version >= 0x030B0000 && Py_Version < 0x030F0000;
    if (!known) return;
    struct Keys {  // of _dictkeysobject; its entries follow the indices
        int64_t references;
        uint8_t log2_size, log2_index_bytes, kind;
        uint32_t version;
        int64_t usable, entries;
    };
    constexpr size_t kept_at = 32;
    constexpr uint8_t only_text = 1;
    const Keys* keys;
    std::memcpy(&keys, reinterpret_cast<const char*>(dict) + kept_at, sizeof keys);
    if (keys->kind != only_text) return;
    const char* entry = reinterpret_cast<const char*>(keys + 1) + (size_t{1} << keys->log2_index_bytes);
    for (Py_ssize_t i = begin; i < end && i < keys->entries; ++i) {
        PyObject* key;
        std::memcpy(&key, entry + 16 * i, sizeof key);
        prefetch_text_object(key);
    }
#else
    (void)dict, (void)begin, (void)end;
#endif
}

// Gives each distinct text a code in order of first appearance, by the hash that Python keeps with it.
class TextNumbers {
public:
    TextNumbers() : slots_(1024, Slot{nullptr, 0, -1}) { offsets_.push_back(0); }

    // Codes of many texts, or false if one is no clean id. The memory that a text needs is asked for
    // while others are looked up.
    bool number(PyObject* const* texts, size_t count, int32_t* codes) {
        constexpr size_t kAhead = 64;
        uint32_t hashes[kAhead];
        for (size_t begin = 0; begin < count; begin += kAhead) {
            const size_t size = count - begin < kAhead ? count - begin : kAhead;
            if (!hash_all(texts + begin, size, hashes)) return false;
            for (size_t i = 0; i < size; ++i) expect_text(texts[begin + i], hashes[i]);
            for (size_t i = 0; i < size; ++i) {
                codes[begin + i] = code_of(texts[begin + i], hashes[i]);
                if (codes[begin + i] < 0) return false;
            }
        }
        return true;
    }

    // The code of a text that may be unclean, or -1.
    int32_t find(PyObject* text, uint32_t hash) const {
        for (size_t at = hash & mask(); slots_[at].code >= 0; at = (at + 1) & mask()) {
            if (holds(slots_[at], text, hash)) return slots_[at].code;
        }
        return -1;
    }

    void expect(uint32_t hash) const { prefetch(&slots_[hash & mask()]); }

    template <class Visit>
    void for_each_hash(Visit visit) const {
        for (size_t at = 0; at < slots_.size(); ++at) {
            if (slots_[at].code >= 0) visit(slots_[at].hash);
        }
    }

    size_t size() const { return offsets_.size() - 1; }
    Column<char> take_blob() { return std::move(blob_); }
    Column<int64_t> take_offsets() { return std::move(offsets_); }

private:
    struct Slot {
        PyObject* text;
        uint32_t hash;
        int32_t code;  // -1: free
    };

    size_t mask() const { return slots_.size() - 1; }
    static bool holds(const Slot& slot, PyObject* text, uint32_t hash) {
        return slot.hash == hash && (slot.text == text || same_bytes(utf8_of(slot.text), utf8_of(text)));
    }

    bool hash_all(PyObject* const* texts, size_t count, uint32_t* hashes) const {
        for (size_t i = 0; i < count; ++i) {
            if (!PyUnicode_CheckExact(texts[i])) return false;
            hashes[i] = static_cast<uint32_t>(PyObject_Hash(texts[i]));
            expect(hashes[i]);
        }
        return true;
    }

    // Asks for the text that the object will be compared with, if that is another object.
    void expect_text(PyObject* text, uint32_t hash) const {
        const Slot& slot = slots_[hash & mask()];
        if (slot.code >= 0 && slot.hash == hash && slot.text != text) prefetch_text_object(slot.text);
    }

    int32_t code_of(PyObject* text, uint32_t hash) {
        size_t at = hash & mask();
        for (; slots_[at].code >= 0; at = (at + 1) & mask()) {
            if (holds(slots_[at], text, hash)) return slots_[at].code;
        }
        return add(text, hash, at);
    }

    int32_t add(PyObject* text, uint32_t hash, size_t at) {
        const std::string_view id = utf8_of(text);
        if (!is_clean_id(id) || size() >= INT32_MAX) return -1;
        const auto code = static_cast<int32_t>(size());
        blob_.append(id.data(), id.size());
        offsets_.push_back(static_cast<int64_t>(blob_.size()));
        slots_[at] = {text, hash, code};
        if (2 * size() > slots_.size()) grow();
        return code;
    }

    void grow() {
        Column<Slot> old(2 * slots_.size(), Slot{nullptr, 0, -1});
        std::swap(old, slots_);
        for (size_t i = 0; i < old.size(); ++i) {
            if (old[i].code < 0) continue;
            size_t at = old[i].hash & mask();
            while (slots_[at].code >= 0) at = (at + 1) & mask();
            slots_[at] = old[i];
        }
    }

    Column<Slot> slots_;
    Column<char> blob_;
    Column<int64_t> offsets_;
};

// Reads numbers. Beside float these are int, the types in `others`, and bool where `truths` are allowed.
class NumberReader {
public:
    NumberReader(PyObject* others, bool truths) : others_(others), truths_(truths) {}

    // False if it is none, not finite, or may lose digits (beyond 2^53, if it is not a float).
    bool read(PyObject* object, double& value) {
        if (PyFloat_CheckExact(object)) {
            value = PyFloat_AsDouble(object);
            return std::isfinite(value);
        }
        if (!is_known(object)) return false;
        value = PyFloat_AsDouble(object);
        if (value == -1.0 && PyErr_Occurred()) PyErr_Clear(), value = HUGE_VAL;
        return std::fabs(value) < 9007199254740992.0;
    }

private:
    bool is_known(PyObject* object) {
        auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
        if (type == last_) return true;
        bool known = PyLong_CheckExact(object) || (truths_ && PyBool_Check(object));
        for (Py_ssize_t i = 0; !known && i < PyTuple_Size(others_); ++i) known = PyTuple_GetItem(others_, i) == type;
        if (known) last_ = type;
        return known;
    }

    PyObject* others_;
    PyObject* last_ = nullptr;
    bool truths_;
};

#ifdef Py_GIL_DISABLED
constexpr bool kAlone = false;  // another thread may change what is walked: the general way copies it
#else
constexpr bool kAlone = true;
#endif

// So many entries are gathered before they are looked at, so that their memory is there by then.
constexpr size_t kGathered = 128;

// Documents and values, one after the other.
struct DocLines {
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

// Calls add(keys, values, count) for some entries of a dictionary after the others, until it returns
// false; `next` is the dictionary that comes after it, if there is one.
template <class Add>
bool walk_row(PyObject* row, PyObject* next, Add add) {
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
        if (!add(keys, values, count)) return false;
    }
    return true;
}

// Walks a list of dictionaries and calls begin(number) before and end(number, row) after each row; false
// if one is none, or if add or end returns false.
template <class Begin, class Add, class End>
bool walk_rows(PyObject* rows, Begin begin, Add add, End end) {
    const Py_ssize_t count = PyList_Size(rows);
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (!kAlone || !PyDict_CheckExact(PyList_GetItem(rows, i))) return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* row = PyList_GetItem(rows, i);
        PyObject* next = i + 1 < count ? PyList_GetItem(rows, i + 1) : nullptr;
        begin(static_cast<size_t>(i));
        if (!walk_row(row, next, add) || !end(static_cast<size_t>(i), row)) return false;
    }
    return true;
}

// Documents and values of many dictionaries, one after the other.
struct DocRows {
    DocLines lines;
    Column<int64_t> offsets;

    bool read(PyObject* rows, NumberReader& numbers) {
        offsets.push_back(0);
        return walk_rows(
            rows, [](size_t) {}, [&](PyObject** keys, PyObject** values, size_t count) { return lines.add(keys, values, count, numbers); },
            [&](size_t, PyObject*) {
                offsets.push_back(static_cast<int64_t>(lines.docs.size()));
                return true;
            });
    }
};

}  // namespace assay
