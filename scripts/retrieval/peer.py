"""Ranks a collection by bm25s, a BM25 that others wrote, as its documentation shows: English stop words, Snowball
stemmer, all parameters at their defaults. Prints a line of JSON for each query: {"id", "found": the best 100}.

peer.py NAME.docs.jsonl NAME.queries.jsonl
"""

import json
import sys

import bm25s
import Stemmer


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main(documents, queries):
    documents, queries = read(documents), read(queries)
    stemmer = Stemmer.Stemmer("english")

    def tokens(texts):
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    peer = bm25s.BM25()
    peer.index(tokens([d["title"] + " " + d["text"] for d in documents]), show_progress=False)
    found, scores = peer.retrieve(
        tokens([q["text"] for q in queries]), k=min(100, len(documents)), show_progress=False, n_threads=1
    )
    for q, places, weights in zip(queries, found, scores):
        ids = [documents[p]["id"] for p, weight in zip(places, weights) if weight > 0]
        print(json.dumps({"id": q["id"], "found": ids}))


if __name__ == "__main__":
    main(*sys.argv[1:])
