"""Zstandard for the tests, on any Python."""

from assay.io.streams import need_zstd

zst_compress = need_zstd("the tests").compress
