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

#include "objects/dictionaries.hpp"
#include "trec/column.hpp"
#include "trec/hashing.hpp"
#include "trec/interner.hpp"

namespace assay {

// The low bits of the hash that Python keeps with a text.
inline uint32_t hash_of(PyObject* text) {
#ifndef Py_LIMITED_API
    const Py_hash_t hash = reinterpret_cast<PyASCIIObject*>(text)->hash;
    if (hash != -1) return static_cast<uint32_t>(hash);
#endif
    return static_cast<uint32_t>(PyObject_Hash(text));
}

// The UTF-8 bytes that the object keeps; empty if it has none (half a character).
inline std::string_view utf8_of(PyObject* text) {
#ifndef Py_LIMITED_API
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        return std::string_view(static_cast<const char*>(PyUnicode_DATA(text)), static_cast<size_t>(PyUnicode_GET_LENGTH(text)));
    }
#endif
    Py_ssize_t size = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
    if (bytes == nullptr) PyErr_Clear();
    return bytes == nullptr ? std::string_view() : std::string_view(bytes, static_cast<size_t>(size));
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

    int32_t find(PyObject* text) const { return find(text, hash_of(text)); }

    void expect(uint32_t hash) const { prefetch(&slots_[hash & mask()]); }

    // The code of a text with that hash, most likely, or -1.
    int32_t guess(uint32_t hash) const { return slots_[hash & mask()].code; }

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
            hashes[i] = hash_of(texts[i]);
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
        if (3 * size() > 2 * slots_.size()) grow();
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
#ifndef Py_LIMITED_API
            value = PyFloat_AS_DOUBLE(object);
#else
            value = PyFloat_AsDouble(object);
#endif
            return std::isfinite(value);
        }
        if (!is_number(object)) return false;
        value = PyFloat_AsDouble(object);
        if (value == -1.0 && PyErr_Occurred()) PyErr_Clear(), value = HUGE_VAL;
        return std::fabs(value) < 9007199254740992.0;
    }

private:
    bool is_number(PyObject* object) {
        auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
        if (type == last_) return true;
        bool number = PyLong_CheckExact(object) || (truths_ && PyBool_Check(object));
        for (Py_ssize_t i = 0; !number && i < PyTuple_Size(others_); ++i) number = PyTuple_GetItem(others_, i) == type;
        if (number) last_ = type;
        return number;
    }

    PyObject* others_;
    PyObject* last_ = nullptr;
    bool truths_;
};

// So many entries are gathered before they are looked at, so that their memory is there by then.
constexpr size_t kGathered = 128;

// Documents and values, one after the other.
struct DocLines {
    TextNumbers doc_ids;
    Column<int32_t> docs;
    Column<double> values;

    bool add(PyObject* const* doc_objects, PyObject* const* value_objects, size_t count, NumberReader& numbers) {
        if (!doc_ids.number(doc_objects, count, docs.extend(count))) return false;
        double* value = values.extend(count);
        for (size_t i = 0; i < count; ++i) {
            if (!numbers.read(value_objects[i], value[i])) return false;
        }
        return true;
    }
};

// Documents and values of many dictionaries, one after the other.
struct DocRows {
    DocLines lines;
    Column<int64_t> offsets;

    bool read(PyObject* rows, NumberReader& numbers) {
        offsets.push_back(0);
        return walk_rows(
            rows, [](size_t) {}, [&](PyObject** keys, PyObject** values, size_t count) { return lines.add(keys, values, count, numbers); },
            [&](size_t) { offsets.push_back(static_cast<int64_t>(lines.docs.size())); });
    }
};

}  // namespace assay
