"""Ranks a collection by bm25s, a BM25 that others wrote, with all parameters at their defaults. Each document and each
query has the stop words of bm25s and the Snowball stemmer of its own language, where there are such; scripts without
spaces are divided into pairs of characters. Reads {"documents": [{"id", "title", "text", "language"}], "queries": the
same without a title}, and prints the ids of the best 100 documents by the id of the query.
"""

import functools
import json
import re
import sys
import unicodedata

import bm25s
import Stemmer
from bm25s.tokenization import _infer_stopwords

# The languages of Snowball's stemmers, by ISO 639-1.
STEMMERS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


@functools.cache
def words_and_stems(language):
    try:
        stop = frozenset(_infer_stopwords(language))
    except ValueError:
        stop = frozenset()
    return stop, Stemmer.Stemmer(STEMMERS[language]) if language in STEMMERS else None


def pieces(text):
    """The words of a text; marks belong to the letters before them."""
    kept = "".join(c if unicodedata.category(c)[0] in "LMN" or c == "_" else " " for c in text.lower())
    for word in kept.split():
        at = 0
        for run in UNSPACED.finditer(word):
            yield word[at : run.start()]
            letters = run.group()
            yield from (letters[i : i + 2] for i in range(max(1, len(letters) - 1)))
            at = run.end()
        yield word[at:]


def tokens(entry):
    stop, stemmer = words_and_stems(entry["language"])
    text = entry.get("title", "") + " " + entry["text"]
    words = [w for w in pieces(text) if len(w) > 1 and w not in stop]
    return stemmer.stemWords(words) if stemmer else words


def main(documents, queries):
    peer = bm25s.BM25()
    peer.index([tokens(d) for d in documents], show_progress=False)
    found, scores = peer.retrieve(
        [tokens(q) for q in queries], k=min(100, len(documents)), show_progress=False, n_threads=1
    )
    best = {}
    for q, places, weights in zip(queries, found, scores):
        best[q["id"]] = [documents[p]["id"] for p, weight in zip(places, weights) if weight > 0]
    print(json.dumps(best))


if __name__ == "__main__":
    main(**json.load(sys.stdin))
