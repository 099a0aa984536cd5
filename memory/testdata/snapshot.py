"""Reads the pickle beside this script with Python and writes what it holds as JSON: the value that document_test.go
expects its own reader to find.

    go test -run TestWritePickle_IsTheGoldenFile -rewrite ./memory
    python3 memory/testdata/snapshot.py
"""
import json
import pathlib
import pickle

here = pathlib.Path(__file__).parent
data = pickle.loads((here / "snapshot.pickle").read_bytes())
(here / "snapshot.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
