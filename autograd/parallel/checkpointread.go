package parallel

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

func (l *loading) fileOf(i int) string { return filepath.Join(l.folder, l.index.Files[i].Name) }

// part opens a part, which must be the one that the index is of.
func (l *loading) part(i int) (*openPart, error) {
	if p := l.parts[i]; p != nil {
		return p, nil
	}
	file, want := l.fileOf(i), l.index.Files[i]
	f, err := l.c.sys.OpenPart(file)
	if err != nil {
		return nil, fileError(file, "open", err)
	}
	if l.parts == nil {
		l.parts = map[int]*openPart{}
	}
	p := &openPart{partFile: f, entries: map[string]safetensors.Entry{}}
	l.parts[i] = p
	if p.header, _, err = headerOf(f, file); err != nil {
		return nil, err
	}
	var note partNote
	if err := json.Unmarshal([]byte(p.header.Metadata[partKey]), &note); err != nil || note.Save != l.index.Save || note.Rank != i {
		return nil, &checkpoint.FormatError{File: file, Detail: "it is the part of another checkpoint", Wanted: fmt.Sprintf("rank %d of %s", i, l.index.Save), Found: fmt.Sprintf("rank %d of %s", note.Rank, excerpt.Of(note.Save))}
	}
	if p.header.Checksum() != want.Checksum || p.header.Len() != want.Bytes {
		return nil, &checkpoint.FormatError{File: file, Detail: "it is not the part that the index is of", Wanted: fmt.Sprintf("%d bytes with checksum %s", want.Bytes, excerpt.Of(want.Checksum)), Found: fmt.Sprintf("%d with %s", p.header.Len(), p.header.Checksum())}
	}
	for _, e := range p.header.Entries {
		p.entries[e.Name] = e
	}
	return p, nil
}

// elements reads count elements of a tensor from one on, in the given shape, to host memory.
func (l *loading) elements(name string, from int, shape tensor.Shape) (*tensor.Tensor, error) {
	t := l.index.Tensors[name]
	if slices.Contains(l.index.Own, name) && l.index.Ranks == l.c.ranks() {
		t.Parts = []partEntry{{File: l.c.rank(), Count: tensor.Shape(t.Shape).Len()}}
	}
	var out *tensor.Tensor
	for _, p := range t.Parts {
		begin, end := max(p.From, from), min(p.From+p.Count, from+shape.Len())
		if begin >= end && (out != nil || shape.Len() > 0) {
			continue
		}
		part, err := l.part(p.File)
		if err != nil {
			return nil, err
		}
		e, ok := part.entries[name]
		if !ok || e.Len() != p.Count || e.Type != t.DType {
			return nil, &checkpoint.FormatError{File: l.fileOf(p.File), Tensor: name, Detail: "it has not what the index says", Wanted: fmt.Sprintf("%d elements of %s", p.Count, excerpt.Of(t.DType)), Found: fmt.Sprintf("%d of %s", e.Len(), e.Type)}
		}
		if out == nil {
			if out, err = l.empty(e, shape); err != nil {
				return nil, err
			}
		}
		if begin < end {
			if err := fill(out, e, part, begin-from, begin-p.From, end-begin); err != nil {
				return nil, readError(l.fileOf(p.File), err)
			}
		}
	}
	return out, nil
}

// empty is memory for what is read.
func (l *loading) empty(e safetensors.Entry, shape tensor.Shape) (*tensor.Tensor, error) {
	if err := e.Unreadable(); err != nil {
		return nil, err
	}
	t, err := tensor.Empty(l.home, e.DType, shape...)
	if err == nil {
		l.read = append(l.read, t)
	}
	return t, err
}

// fill sets count elements of t from one on to those of a part from another one on.
func fill(t *tensor.Tensor, e safetensors.Entry, from *openPart, at, first, count int) error {
	flat, err := t.View(t.Len())
	if err != nil {
		return err
	}
	defer flat.Release()
	run, err := flat.Narrow(0, at, count)
	if err != nil {
		return err
	}
	defer run.Release()
	return e.Fill(run, from, from.header.Start(), first)
}
