package safetensors

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// maxIndex is the bytes of an index that are read: hundreds of thousands of names.
const maxIndex = 100 << 20

// index says in which file each tensor is.
type index struct {
	Metadata  indexMetadata     `json:"metadata"`
	WeightMap map[string]string `json:"weight_map"`
}

type indexMetadata struct {
	TotalSize int64 `json:"total_size"` // bytes of the data of all tensors
}

// openIndex opens all files that an index names. A tensor is in the file that the index says, also if another one has one of that name.
func openIndex(path string, opts []OpenOption) (_ *File, err error) {
	files, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	var parts []*part
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(parts))
		}
	}()
	byName := map[string]*part{}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(files))) {
		p, err := openPart(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			return nil, err
		}
		parts, byName[name] = append(parts, p), p
	}
	f := newFile(path, parts, opts)
	for _, p := range parts {
		for i := range p.header.Entries {
			if e := &p.header.Entries[i]; byName[files[e.Name]] == p {
				f.add(p, e)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, there := f.places[name]; !there {
			return nil, &FormatError{File: path, Tensor: name, Detail: "it is not in the file that the index names: " + excerpt.Quote(files[name])}
		}
	}
	return f, nil
}

// readIndex reads the file's name of each tensor. A file is in the folder of its index, and nowhere else.
func readIndex(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &FileError{"open", path, err}
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxIndex+1))
	if err != nil {
		return nil, &FileError{"read", path, err}
	}
	if len(text) > maxIndex {
		return nil, &FormatError{File: path, Detail: "the index is too long"}
	}
	return parseIndex(path, text)
}

func parseIndex(path string, text []byte) (map[string]string, error) {
	var x struct {
		WeightMap map[string]string `json:"weight_map"` // other programs' metadata can be anything
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, &FormatError{File: path, Detail: "the index: " + err.Error()}
	}
	if x.WeightMap == nil {
		return nil, &FormatError{File: path, Detail: "the index has no weight_map"}
	}
	for name, file := range x.WeightMap {
		if file == "." || !filepath.IsLocal(file) || strings.ContainsAny(file, "/\\:\x00") {
			return nil, &FormatError{File: path, Tensor: name, Detail: "a file of the index's folder is called otherwise: " + excerpt.Quote(file)}
		}
	}
	return x.WeightMap, nil
}
