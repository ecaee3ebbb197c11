// Files that are mapped into memory and lose pages: a read beyond a file's new end is a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::mapped_files {

// Let reads of these bytes go on when their file was cut short: what is lost reads as zeros, and
// `lost` becomes 1. Returns a number for `unwatch`, or -1 where there is no more room.
int watch(uintptr_t address, size_t n_bytes, int32_t* lost);

void unwatch(int number);

}  // namespace assay::mapped_files
