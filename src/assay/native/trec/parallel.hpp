// Threads that live as long as one call. Nothing here may change a result.
#pragma once

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace assay {

// More threads than this gain nothing: memory is the limit.
inline unsigned default_threads() {
    return std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
}

// Calls work(0) here and work(1), … work(count - 1) in other threads, or here as well where the
// system gives no more threads; waits for all of them, then throws what one of them threw.
template <class Work>
void run_together(unsigned count, Work work) {
    std::vector<std::exception_ptr> errors(count);
    const auto guarded = [&](unsigned i) {
        try {
            work(i);
        } catch (...) {
            errors[i] = std::current_exception();
        }
    };
    std::vector<std::thread> helpers;
    helpers.reserve(count);
    unsigned started = 1;
    try {
        for (; started < count; ++started) helpers.emplace_back(guarded, started);
    } catch (const std::system_error&) {
    }
    guarded(0);
    for (unsigned i = started; i < count; ++i) guarded(i);
    for (std::thread& helper : helpers) helper.join();
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

// Cuts rows 0 … count-1 into `parts` ranges of about equal numbers of elements;
// part i is rows cuts[i] to cuts[i + 1].
inline std::vector<size_t> cut_rows(const int64_t* offsets, size_t count, unsigned parts) {
    std::vector<size_t> cuts(parts + 1, count);
    cuts[0] = 0;
    for (unsigned i = 1; i < parts; ++i) {
        const int64_t goal = offsets[count] / parts * i;
        cuts[i] = static_cast<size_t>(std::lower_bound(offsets, offsets + count, goal) - offsets);
    }
    return cuts;
}

// Small work is not worth a thread.
inline unsigned threads_for(size_t elements) {
    return elements < 100000 ? 1 : default_threads();
}

}  // namespace assay
