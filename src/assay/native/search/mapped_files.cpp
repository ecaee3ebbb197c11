// The handler puts a page of zeros where the file's page was and returns, so the read is repeated and
// any code goes on, in whatever thread: nothing is unwound. Whoever watches raises an error afterwards.
#include "search/mapped_files.hpp"

#ifdef _WIN32

namespace assay::mapped_files {

// Windows refuses to cut a file short that is mapped.
int watch(uintptr_t, size_t, int32_t*) { return 0; }

void unwatch(int) {}

}  // namespace assay::mapped_files

#else

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace assay::mapped_files {

namespace {

struct Region {
    std::atomic<uintptr_t> first{0};  // 0: not in use
    std::atomic<uintptr_t> last{0};
    std::atomic<int32_t*> lost{nullptr};
};

constexpr int most_regions = 4096;
Region regions[most_regions];
std::atomic<int> n_regions{0};  // those beyond were never in use
std::atomic<bool> is_passing_on{false};
struct sigaction previous;
uintptr_t page_size;
std::mutex changing;

bool put_zeros(uintptr_t address) {
    const int count = n_regions.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i) {
        const uintptr_t first = regions[i].first.load(std::memory_order_acquire);
        const uintptr_t last = regions[i].last.load(std::memory_order_relaxed);
        if (first == 0 || address < first || address >= last) continue;
        const uintptr_t page = address & ~(page_size - 1);
        void* put = mmap(reinterpret_cast<void*>(page), last - page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (put == MAP_FAILED) return false;
        *regions[i].lost.load(std::memory_order_relaxed) = 1;
        return true;
    }
    return false;
}

void end_as_usual(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

// Give a fault that is not ours to whoever handled faults before.
void pass_on(int number, siginfo_t* info, void* context) {
    if (is_passing_on.exchange(true)) return end_as_usual(number);  // it came back to us
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
        end_as_usual(number);
    } else {
        previous.sa_handler(number);
    }
    is_passing_on = false;
}

void on_bus_error(int number, siginfo_t* info, void* context) {
    const int error = errno;
    const bool is_fault = info->si_code > 0;  // not sent by a process
    if (!is_fault || !put_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(number, info, context);
    errno = error;
}

// Be the first to hear of faults; others, such as Python's faulthandler, may have come in between.
bool listen_first() {
    struct sigaction current;
    if (sigaction(SIGBUS, nullptr, &current) != 0) return false;
    if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_bus_error) return true;
    previous = current;
    struct sigaction ours = {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    return sigaction(SIGBUS, &ours, nullptr) == 0;
}

}  // namespace

int watch(uintptr_t address, size_t n_bytes, int32_t* lost) {
    const std::lock_guard<std::mutex> alone(changing);
    page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    if (!listen_first()) return -1;
    int number = 0;
    while (number < most_regions && regions[number].first.load() != 0) ++number;
    if (number == most_regions) return -1;
    const uintptr_t end = address + n_bytes;
    regions[number].lost = lost;
    regions[number].last = (end + page_size - 1) & ~(page_size - 1);
    regions[number].first.store(address & ~(page_size - 1), std::memory_order_release);
    if (number >= n_regions.load()) n_regions.store(number + 1, std::memory_order_release);
    return number;
}

void unwatch(int number) {
    const std::lock_guard<std::mutex> alone(changing);
    if (number >= 0 && number < most_regions) regions[number].first.store(0, std::memory_order_release);
}

}  // namespace assay::mapped_files

#endif
