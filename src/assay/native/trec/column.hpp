// A growing array whose memory can be handed to numpy without a copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace assay {

// Asks for large pages under a large block, as numpy does: fewer faults while it is filled, and fewer
// walks through page tables where it is read here and there.
inline void advise_large_pages(void* memory, size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr size_t large = size_t{4} << 20, page = 4096;
    if (bytes < large) return;
    const size_t past = reinterpret_cast<size_t>(memory) % page;
    const size_t skipped = past == 0 ? 0 : page - past;
    madvise(static_cast<char*>(memory) + skipped, bytes - skipped, MADV_HUGEPAGE);  // a wish; may fail
#else
    (void)memory, (void)bytes;
#endif
}

// realloc lets the system move the pages of a large array instead of copying them,
// and pages that were reserved but never written cost no memory.
template <class T>
class Column {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    Column() = default;
    explicit Column(size_t size) { extend(size); }
    Column(size_t size, T value) : Column(size) { std::fill_n(data_, size, value); }
    Column(Column&& other) noexcept { swap(other); }
    Column& operator=(Column&& other) noexcept {
        swap(other);
        return *this;
    }
    Column(const Column&) = delete;
    Column& operator=(const Column&) = delete;
    ~Column() { std::free(data_); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }

    void push_back(T value) { *extend(1) = value; }

    void append(const T* values, size_t count) {
        T* place = extend(count);
        if (count != 0) std::memcpy(place, values, count * sizeof(T));
    }

    // Adds `count` elements without a value and returns the first of them.
    T* extend(size_t count) {
        if (size_ + count > capacity_) grow(size_ + count);
        T* place = data_ + size_;
        size_ += count;
        return place;
    }

    // Room for so many elements, if the system has it. What is never written costs no memory, and what
    // need not move stays on large pages.
    void reserve(size_t capacity) {
        if (capacity > capacity_ && capacity < SIZE_MAX / sizeof(T)) resize(capacity);
    }

    // Forgets the elements from `size` on and keeps their memory.
    void shrink(size_t size) { size_ = size; }
    void clear() { shrink(0); }

    // Gives the memory away; the caller frees it with std::free.
    T* release() {
        size_ = capacity_ = 0;
        return std::exchange(data_, nullptr);
    }

private:
    void swap(Column& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    void grow(size_t needed) {
        size_t capacity = needed > 2 * capacity_ ? needed : 2 * capacity_;
        if (capacity < 64) capacity = 64;
        if (!resize(capacity)) throw std::bad_alloc();
    }

    bool resize(size_t capacity) {
        void* moved = std::realloc(data_, capacity * sizeof(T));
        if (moved == nullptr) return false;
        advise_large_pages(moved, capacity * sizeof(T));
        data_ = static_cast<T*>(moved);
        capacity_ = capacity;
        return true;
    }

    T* data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

}  // namespace assay
