// Arrays on their way between numpy and the kernels, and the parts of the module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "trec/column.hpp"

namespace assay {

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
Out<T> to_numpy(Column<T>&& column) {
    const size_t size = column.size();
    T* data = column.release();
    if (data == nullptr) data = static_cast<T*>(std::malloc(sizeof(T)));
    nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
    return Out<T>(data, {size}, owner);
}

inline Out<uint8_t> to_numpy(Column<char>&& column) {
    const size_t size = column.size();
    void* data = column.release();
    if (data == nullptr) data = std::malloc(1);
    nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
    return Out<uint8_t>(static_cast<uint8_t*>(data), {size}, owner);
}

inline void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

// Offsets start at 0, never fall, and end at the number of elements.
inline void check_offsets(const In<int64_t>& offsets, size_t elements) {
    const int64_t* offset = offsets.data();
    const size_t count = offsets.size();  // asked once: the loop is many times as fast
    require(count >= 1 && offset[0] == 0, "offsets must start with 0");
    bool falls = false;
    for (size_t i = 1; i < count; ++i) falls |= offset[i] < offset[i - 1];
    require(!falls, "offsets must not fall");
    require(static_cast<size_t>(offset[count - 1]) == elements, "offsets must end at the number of elements");
}

// Each adds the functions of one source of this folder to the module.
void bind_hamming(nb::module_& module);
void bind_objects(nb::module_& module);
void bind_score_ranks(nb::module_& module);
void bind_search(nb::module_& module);
void bind_sparse(nb::module_& module);
void bind_tokens(nb::module_& module);

}  // namespace assay
