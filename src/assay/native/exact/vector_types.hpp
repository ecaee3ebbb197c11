// Numbers that are treated alike. GCC and Clang know vectors of them; any other compiler gets a plain
// array with the same operators, and the same results. ASSAY_NO_EXTENSIONS stands for such a compiler.
// Everything is in an unnamed namespace, because sources with other vector instructions include it.
#pragma once

#include <cstddef>

#if defined(__GNUC__) && !defined(ASSAY_NO_EXTENSIONS)
#define ASSAY_EXTENSIONS
#define ASSAY_ALWAYS_INLINE inline __attribute__((always_inline))
#define ASSAY_PREFETCH(address) __builtin_prefetch(address)
#else
#define ASSAY_ALWAYS_INLINE inline
#define ASSAY_PREFETCH(address) (void)(address)
#endif

namespace {

#if defined(ASSAY_EXTENSIONS)
template <class T, size_t count>
struct VectorOf {
    typedef T type __attribute__((vector_size(count * sizeof(T))));
};
#else
template <class T, size_t count>
struct VectorOf {
    struct type {
        T of[count];

        T operator[](size_t i) const { return of[i]; }
        T& operator[](size_t i) { return of[i]; }
        type operator-() const { return *this * T{-1}; }
        type& operator+=(const type& other) { return *this = *this + other; }
        friend type operator+(type a, const type& b) {
            for (size_t i = 0; i < count; ++i) a.of[i] += b.of[i];
            return a;
        }
        friend type operator-(type a, const type& b) {
            for (size_t i = 0; i < count; ++i) a.of[i] -= b.of[i];
            return a;
        }
        friend type operator*(type a, const type& b) {
            for (size_t i = 0; i < count; ++i) a.of[i] *= b.of[i];
            return a;
        }
        friend type operator/(type a, const type& b) {
            for (size_t i = 0; i < count; ++i) a.of[i] /= b.of[i];
            return a;
        }
        friend type operator+(type a, T b) {
            for (T& each : a.of) each += b;
            return a;
        }
        friend type operator-(type a, T b) {
            for (T& each : a.of) each -= b;
            return a;
        }
        friend type operator*(type a, T b) {
            for (T& each : a.of) each *= b;
            return a;
        }
        friend type operator*(T a, const type& b) { return b * a; }
    };
};
#endif

}  // namespace
