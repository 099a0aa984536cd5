package parallel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/internal/atomicfile"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
)

// writePart writes this rank's file.
func (w *saving) writePart(ctx context.Context) error {
	note, err := json.Marshal(w.note)
	if err != nil {
		return within(w.folder, partKey, err)
	}
	w.metadata[partKey] = string(note)
	if err := w.c.sys.MakeFolder(w.folder); err != nil {
		return fileError(w.folder, "make the folder", err)
	}
	file := filepath.Join(w.folder, nameOfPart(w.c.rank(), w.c.ranks(), w.note.Save))
	err = atomicfile.Write(w.c.sys, file, func(f atomicfile.File) error { return safetensors.WriteFile(ctx, f, w.tensors, w.metadata) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return located(file, err)
}

// located is an error with the file that it is about.
func located(file string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *safetensors.Error:
		return &checkpoint.FormatError{File: file, Tensor: e.Tensor, Detail: e.Detail, Wanted: e.Wanted, Found: e.Found}
	}
	return fileError(file, "write", err)
}

// writeIndex makes the index of what is in the folder, so that parts which rank 0 does not see, as in a folder that is not shared, are told now.
func (w *saving) writeIndex() error {
	x := &index{Format: indexFormat, Version: indexVersion, Save: w.note.Save, Step: w.step, Ranks: w.c.ranks(), Stage: w.c.stage(), Order: w.c.order(),
		Tensors: map[string]tensorEntry{}, Own: w.note.Own, Sections: w.note.Sections, Optimizers: map[string]optimizerEntry{}}
	for rank := range x.Ranks {
		if err := w.addPart(x, rank); err != nil {
			return err
		}
	}
	for _, t := range x.Tensors {
		slices.SortFunc(t.Parts, func(a, b partEntry) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Count, b.Count)) })
	}
	file := filepath.Join(w.folder, indexName)
	if why := x.unsound(); why != "" {
		return &checkpoint.FormatError{File: file, Detail: "the parts do not fit together: " + why}
	}
	text, err := x.encode()
	if err != nil {
		return within(file, "index", err)
	}
	return located(file, atomicfile.Write(w.c.sys, file, func(f atomicfile.File) error {
		_, err := f.Write(text)
		return err
	}))
}

// addPart reads what a part says of itself.
func (w *saving) addPart(x *index, rank int) error {
	name := nameOfPart(rank, x.Ranks, x.Save)
	h, size, err := readHeader(w.c.sys, filepath.Join(w.folder, name))
	if err != nil {
		return err
	}
	var note partNote
	if err := json.Unmarshal([]byte(h.Metadata[partKey]), &note); err != nil {
		return within(name, partKey, err)
	}
	x.Files = append(x.Files, fileEntry{name, size, h.Checksum()})
	for _, e := range h.Entries {
		t, whole := tensorEntry{DType: e.Type, Shape: e.Shape}, partEntry{File: rank, Count: e.Len()}
		if p, ok := note.Pieces[e.Name]; ok {
			t.Shape, whole.From = p.Shape, p.From
		}
		if rank > 0 && ownOf(e.Name, &note) {
			continue
		}
		if have, ok := x.Tensors[e.Name]; ok {
			if have.DType != t.DType || !slices.Equal(have.Shape, t.Shape) {
				return &checkpoint.FormatError{File: name, Tensor: e.Name, Detail: "the ranks have different ones", Wanted: fmt.Sprint(have.DType, have.Shape), Found: fmt.Sprint(t.DType, t.Shape)}
			}
			t = have
		}
		t.Parts = append(t.Parts, whole)
		x.Tensors[e.Name] = t
	}
	return x.addOptimizers(name, &note)
}

// ownOf reports whether a tensor is one that each part has for its rank.
func ownOf(name string, note *partNote) bool {
	section := sectionOf(name)
	return note.Sections[section].Own || slices.Contains(note.Own, name)
}

// addOptimizers joins what the ranks' optimizers are of.
func (x *index) addOptimizers(file string, note *partNote) error {
	for name, from := range note.Optimizers {
		to, ok := x.Optimizers[name]
		if !ok {
			to = optimizerEntry{Optimizer: from.Optimizer, State: map[string]stateEntry{}, Groups: make([]optim.GroupState, len(from.Groups))}
			for i, g := range from.Groups {
				to.Groups[i] = maps.Clone(g)
				to.Groups[i]["params"] = []string{}
			}
		}
		if len(to.Groups) != len(from.Groups) || to.Optimizer != from.Optimizer {
			return &checkpoint.MismatchError{File: file, Section: name, Detail: fmt.Sprintf("%s with %d groups of parameters on rank %d, %s with %d on rank 0", from.Optimizer, len(from.Groups), note.Rank, to.Optimizer, len(to.Groups))}
		}
		for i, g := range from.Groups {
			of, _ := to.Groups[i]["params"].([]string)
			for _, p := range namesIn(g) {
				if !slices.Contains(of, p) {
					of = append(of, p)
				}
			}
			to.Groups[i]["params"] = of
		}
		for p, s := range from.State {
			if have, ok := to.State[p]; ok && (have.Step != s.Step || !slices.Equal(have.Tensors, s.Tensors)) {
				return &checkpoint.MismatchError{File: file, Section: name, Detail: fmt.Sprintf("the state of %s is that of step %d on rank %d, of step %d on others", excerpt.Quote(p), s.Step, note.Rank, have.Step)}
			}
			to.State[p] = s
		}
		x.Optimizers[name] = to
	}
	return nil
}

// namesIn are the parameters of a group.
func namesIn(g optim.GroupState) (names []string) {
	switch list := g["params"].(type) {
	case []string:
		return list
	case []any: // from JSON
		for _, v := range list {
			name, _ := v.(string)
			names = append(names, name)
		}
	}
	return names
}

// readHeader reads the header of a part, and how long the file is, which must be as long as that says.
func readHeader(sys storage, file string) (*safetensors.Header, int64, error) {
	f, err := sys.OpenPart(file)
	if err != nil {
		return nil, 0, fileError(file, "open", err)
	}
	defer f.Close() // it was only read
	return headerOf(f, file)
}

func headerOf(f partFile, file string) (*safetensors.Header, int64, error) {
	size, err := f.Size()
	if err != nil {
		return nil, 0, fileError(file, "look at", err)
	}
	h, err := safetensors.ReadHeader(io.NewSectionReader(f, 0, size))
	if err == nil && h.Len() != size {
		err = safetensors.WrongLength(h.Len(), size)
	}
	if err == nil && (!h.IsCheckpoint() || !h.HasChecksum()) {
		err = &safetensors.Error{Detail: "it is no part of a checkpoint"}
	}
	return h, size, located(file, err)
}

// clean removes the parts that the index does not name, and what was to be one when its Write was killed. It is a favour: what it cannot do is left.
func (w *saving) clean() {
	keep := ""
	switch x, err := readIndexFile(w.c.sys, w.folder); {
	case err == nil:
		keep = x.Save
	case !missing(err):
		return // whose parts they are is not known
	}
	entries, err := w.c.sys.ReadDir(w.folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		if of := leftover.FindStringSubmatch(e.Name()); of != nil && (of[1] != keep || of[2] != "") && e.Type().IsRegular() {
			_ = w.c.sys.Remove(filepath.Join(w.folder, e.Name()))
		}
	}
}

// order is the order of the parameters that the ranks have learned.
func (c *Checkpoint) order() (names []string) {
	if c.d == nil {
		return nil
	}
	for _, i := range c.d.order {
		names = append(names, c.d.params[i].name)
	}
	return names
}

// sectionOf is the section that a tensor of a file is of.
func sectionOf(name string) string {
	section, _, _ := strings.Cut(name, ".")
	return section
}
