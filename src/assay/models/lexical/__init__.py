"""Search by words: `lexical_model(spec)` gives a model that is fitted to a collection.

    bm25        BM25 scores of the package bm25s
    tfidf       TF-IDF vectors of scikit-learn, compared by cosine
    lsa:DIM     the same, brought down to DIM dimensions by a truncated SVD

Each kind is one file; its package is imported when it is used.
"""
