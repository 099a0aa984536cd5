package parallel

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/internal/statedict"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// loading is one call of Read on a rank: what it needs is read to host memory and checked (prepare), then set (apply), which can be undone.
type loading struct {
	c      *Checkpoint
	folder string
	index  *index

	home    tensor.Exec // host memory for what is read
	end     func() error
	parts   map[int]*openPart
	read    []*tensor.Tensor // what there is of it
	changes []change
	applied int // how many of them may have changed something
}

// change is what is to be done, and where it is from.
type change struct {
	name string
	checkpoint.Change
}

// openPart is a part that this rank reads from.
type openPart struct {
	partFile
	header  *safetensors.Header
	entries map[string]safetensors.Entry
}

// missing reports whether a file is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (l *loading) readIndex() (err error) {
	l.index, err = readIndexFile(l.c.sys, l.folder)
	return err
}

// sameIndex is an error on all ranks if they have read different ones, as in folders that are not shared.
func (l *loading) sameIndex(op string) error {
	d := l.c.d
	if d == nil {
		return nil
	}
	own := int64(binary.LittleEndian.Uint64([]byte(l.index.Save)[:8])) ^ int64(crc32.ChecksumIEEE([]byte(l.index.Save+l.index.Checksum)))<<16
	all, err := d.gatherNumbers("comparison of the indexes", own)
	if err != nil {
		return d.fatal(op, err)
	}
	for rank, other := range all {
		if other != all[0] {
			return &CheckpointError{Op: op, Rank: rank, Err: &checkpoint.MismatchError{File: l.index.file, Detail: "it is not the index that rank 0 has read: the ranks need one folder"}}
		}
	}
	return nil
}

// prepare reads and checks all that this rank needs, and takes the memory for it.
func (l *loading) prepare(ctx context.Context) (err error) {
	if l.home, l.end, err = safetensors.Home(); err != nil {
		return err
	}
	if err := l.known(); err != nil {
		return err
	}
	if err := l.verify(ctx); err != nil {
		return err
	}
	if err := l.prepareModel(ctx); err != nil {
		return err
	}
	for _, name := range l.c.names {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, prepare := l.c.sections[name], l.prepareSection
		if s.opt != nil {
			prepare = l.prepareOptimizer
		}
		if err := prepare(name, s); err != nil {
			return l.about(name, err)
		}
	}
	return ctx.Err()
}

// about says where an error is from.
func (l *loading) about(section string, err error) error {
	switch e := err.(type) {
	case *checkpoint.MismatchError:
		own := *e
		own.File, own.Section = l.index.file, section
		return &own
	case *checkpoint.FormatError, *checkpoint.FileError:
		return err
	}
	return within(l.index.file, section, err)
}

// known refuses a checkpoint that has other sections.
func (l *loading) known() error {
	other := func(name, detail string) error {
		return &checkpoint.MismatchError{File: l.index.file, Section: name, Detail: detail}
	}
	for _, name := range l.c.names {
		_, optimizer := l.index.Optimizers[name]
		saved, plain := l.index.Sections[name]
		s := l.c.sections[name]
		switch {
		case !optimizer && !plain:
			return other(name, "the checkpoint has no such section")
		case optimizer != (s.opt != nil) || plain && saved.Own != s.own:
			return other(name, "the checkpoint has it as another one of Optimizer, Add and AddOwn")
		}
	}
	if l.c.modelOnly {
		return nil
	}
	for _, name := range append(slices.Sorted(maps.Keys(l.index.Sections)), slices.Sorted(maps.Keys(l.index.Optimizers))...) {
		if _, ok := l.c.sections[name]; !ok {
			return other(name, "the checkpoint has this section, the program has not")
		}
	}
	return nil
}

// verify compares the checksums of those parts whose turn it is on this rank.
func (l *loading) verify(ctx context.Context) error {
	for i := l.c.rank(); i < len(l.index.Files); i += l.c.ranks() {
		p, err := l.part(i)
		if err != nil {
			return err
		}
		file := l.fileOf(i)
		r, err := safetensors.NewReader(io.NewSectionReader(p, 0, p.header.Len()))
		for err == nil {
			if err = ctx.Err(); err == nil {
				err = r.SkipOne()
			}
		}
		if errors.Is(err, io.EOF) {
			err = r.Finish()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return readError(file, err)
		}
	}
	return nil
}

func readError(file string, err error) error {
	var unsound *safetensors.Error
	if errors.As(err, &unsound) {
		return located(file, unsound)
	}
	return fileError(file, "read", err)
}

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

// prepareModel reads the values of what this rank has of the model.
func (l *loading) prepareModel(ctx context.Context) error {
	saved := l.index.under(modelSection)
	if err := l.sameModel(saved); err != nil {
		return err
	}
	c, x := l.c, new(safetensors.Exchange)
	sharded := map[string]bool{}
	add := func(n string, from int, shape tensor.Shape, place safetensors.Place) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, err := l.elements(modelSection+"."+n, from, shape)
		if err != nil {
			return l.about(modelSection, err)
		}
		x.Add(n, place, t)
		return nil
	}
	if c.stage() > 0 {
		for _, q := range c.d.params {
			sharded[q.name] = true
		}
		for _, h := range sorted(c.holdings()) {
			if err := add(h.name, h.from, h.p.Shape(), safetensors.Place{Tensor: h.p.Tensor()}); err != nil {
				return err
			}
		}
	}
	for _, n := range nn.NamedState(c.model) {
		if sharded[n.Name] {
			continue
		}
		place, ok := statedict.PlaceOf(n.Parameter)
		if !ok {
			return l.about(modelSection, &tensor.ReleasedError{Op: "Read of " + n.Name, Nil: true})
		}
		if err := add(n.Name, 0, n.Parameter.Shape(), place); err != nil {
			return err
		}
	}
	l.changes = append(l.changes, change{modelSection, checkpoint.Change{Apply: func() error {
		if c.d != nil { // the whole parameters, or those in half precision, are those from before
			c.d.stale = c.d.stale || c.d.set.stage == 1 || c.d.set.stage == 2 || c.d.set.master
		}
		return x.Apply()
	}, Undo: x.Undo}})
	return nil
}

// sameModel refuses the checkpoint of another model.
func (l *loading) sameModel(saved map[string]tensorEntry) error {
	var all []checkpoint.Difference
	const nothing = "nothing"
	for _, n := range nn.NamedState(l.c.model) {
		t, ok := saved[n.Name]
		switch shape := tensor.Shape(t.Shape); {
		case !ok:
			all = append(all, checkpoint.Difference{Tensor: n.Name, Wanted: "shape " + n.Parameter.Shape().String(), Found: nothing})
		case !shape.Equal(n.Parameter.Shape()):
			all = append(all, checkpoint.Difference{Tensor: n.Name, Wanted: "shape " + n.Parameter.Shape().String(), Found: "shape " + shape.String()})
		}
		delete(saved, n.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(saved)) {
		all = append(all, checkpoint.Difference{Tensor: name, Wanted: nothing, Found: "shape " + tensor.Shape(saved[name].Shape).String()})
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b checkpoint.Difference) int { return strings.Compare(a.Tensor, b.Tensor) })
	return &checkpoint.MismatchError{File: l.index.file, Section: modelSection, Differences: all}
}

// prepareSection reads what was added by Add, or AddOwn.
func (l *loading) prepareSection(name string, s section) error {
	file := 0
	if s.own {
		if l.index.Ranks != l.c.ranks() {
			return nil
		}
		file = l.c.rank()
	}
	p, err := l.part(file)
	if err != nil {
		return err
	}
	text, ok := p.header.Metadata[sectionKey+name]
	if !ok {
		return &checkpoint.FormatError{File: l.fileOf(file), Section: name, Detail: "the part has not this section, which the index says it has"}
	}
	content := checkpoint.Content{JSON: json.RawMessage(text), Kind: p.header.Metadata[kindKey+name], Tensors: map[string]*tensor.Tensor{}}
	for _, e := range p.header.Entries {
		n, ok := strings.CutPrefix(e.Name, name+".")
		if !ok {
			continue
		}
		t, err := l.empty(e, e.Shape)
		if err != nil {
			return err
		}
		if err := fill(t, e, p, 0, 0, t.Len()); err != nil {
			return readError(l.fileOf(file), err)
		}
		content.Tensors[n] = t
	}
	made, err := s.Prepare(content)
	if err != nil {
		return err
	}
	l.changes = append(l.changes, change{name, made})
	return nil
}

// prepareOptimizer puts together what this rank's optimizer has of the state.
func (l *loading) prepareOptimizer(name string, s section) error {
	saved, held := l.index.Optimizers[name], l.c.holdings()
	if err := l.sameParameters(saved); err != nil {
		return err
	}
	dict := optim.StateDict{Optimizer: saved.Optimizer, State: map[int]optim.ParamState{}}
	own, err := s.opt.StateDict() // for the groups
	if err != nil {
		return err
	}
	if len(own.Groups) != len(saved.Groups) {
		return &checkpoint.MismatchError{Detail: fmt.Sprintf("%d groups of parameters; the optimizer has %d", len(saved.Groups), len(own.Groups))}
	}
	params := s.opt.Parameters()
	for i, g := range own.Groups {
		numbers, _ := g["params"].([]int)
		in := map[string]bool{}
		for _, p := range namesIn(saved.Groups[i]) {
			in[p] = true
		}
		for _, n := range numbers {
			h, ok := held[params[n]]
			if !ok {
				return &checkpoint.MismatchError{Detail: fmt.Sprintf("its parameter %d (%s) is not among those of DataParallel.Parameters, or of the model", n, excerpt.Quote(params[n].Name()))}
			}
			if !in[h.name] {
				return &checkpoint.MismatchError{Detail: fmt.Sprintf("group %d has not the parameter %s", i, excerpt.Quote(h.name))}
			}
			state, ok := saved.State[h.name]
			if !ok {
				continue
			}
			if dict.State[n], err = l.state(name, h, state); err != nil {
				return err
			}
		}
		group := maps.Clone(saved.Groups[i])
		group["params"] = numbers
		dict.Groups = append(dict.Groups, group)
	}
	if err := allOf(saved, held, params); err != nil {
		return err
	}
	p, err := s.opt.PrepareStateDict(dict)
	if err != nil {
		return err
	}
	swapped := false
	swap := func() error { p.Swap(); swapped = !swapped; return nil }
	l.changes = append(l.changes, change{name, checkpoint.Change{Apply: swap, Close: p.Release, Undo: func() error {
		if swapped {
			return swap()
		}
		return nil
	}}})
	return nil
}

// allOf refuses an optimizer without a parameter that the saved one had and that this rank has.
func allOf(saved optimizerEntry, held map[*autograd.Parameter]holding, params []*autograd.Parameter) error {
	had := map[string]bool{}
	for _, g := range saved.Groups {
		for _, name := range namesIn(g) {
			had[name] = true
		}
	}
	for _, h := range sorted(held) {
		if had[h.name] && !slices.Contains(params, h.p) {
			return &checkpoint.MismatchError{Detail: "the optimizer has not the parameter " + excerpt.Quote(h.name) + ", of which a state was saved"}
		}
	}
	return nil
}

// sameParameters refuses the state of parameters that the model has not.
func (l *loading) sameParameters(saved optimizerEntry) error {
	known := map[string]bool{}
	for _, n := range nn.NamedParameters(l.c.model) {
		known[n.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(saved.State)) {
		if !known[name] {
			return &checkpoint.MismatchError{Detail: "it has a state of the parameter " + excerpt.Quote(name) + ", which the model has not"}
		}
	}
	return nil
}

// state reads the state of what this rank has of a parameter.
func (l *loading) state(section string, h holding, saved stateEntry) (optim.ParamState, error) {
	state := optim.ParamState{Step: saved.Step, Tensors: map[string]*tensor.Tensor{}}
	for _, key := range saved.Tensors {
		name := section + "." + h.name + "." + key
		t, ok := l.index.Tensors[name]
		if !ok {
			return state, &checkpoint.FormatError{File: l.index.file, Tensor: name, Detail: "the index does not say where it is"}
		}
		from, shape := 0, tensor.Shape(t.Shape)
		if shape.Equal(h.shape) {
			from, shape = h.from, h.p.Shape()
		}
		read, err := l.elements(name, from, shape)
		if err != nil {
			return state, err
		}
		state.Tensors[key] = read
	}
	return state, nil
}

// apply makes the changes, up to one that fails.
func (l *loading) apply() error {
	for i, c := range l.changes {
		if c.Apply == nil {
			continue
		}
		l.applied = i + 1
		if err := c.Apply(); err != nil {
			return l.about(c.name, err)
		}
	}
	return nil
}

// undo takes the changes back, the last one first.
func (l *loading) undo() (err error) {
	for _, c := range slices.Backward(l.changes[:l.applied]) {
		if c.Undo != nil {
			err = errors.Join(err, c.Undo())
		}
	}
	return err
}

// release gives back what was read.
func (l *loading) release() {
	for _, c := range l.changes {
		if c.Close != nil {
			c.Close()
		}
	}
	for _, t := range l.read {
		t.Release()
	}
	for _, p := range l.parts {
		_ = p.Close() // it was only read
	}
	if l.end != nil {
		_ = l.end() // nothing is left there
	}
}

func (l *loading) saved() Saved {
	x := l.index
	return Saved{Step: x.Step, Ranks: x.Ranks, Stage: x.Stage, Own: x.Ranks == l.c.ranks()}
}

// takeOrder takes the order of the parameters that was learned, so that sums are made in the same pieces as before. It changes nothing else.
func (c *Checkpoint) takeOrder(op string, x *index) error {
	d := c.d
	if d == nil || d.learned || d.set.unused || x.Ranks != c.ranks() || x.Stage != c.stage() || len(x.Order) != len(d.params) {
		return nil
	}
	at := map[string]int{}
	for i, q := range d.params {
		at[q.name] = i
	}
	order := make([]int64, len(x.Order))
	seen := map[int]bool{}
	for i, name := range x.Order {
		k, ok := at[name]
		if !ok || seen[k] {
			return nil // of a model with other names: it learns its own
		}
		order[i], seen[k] = int64(k), true
	}
	d.learned = true
	return d.wrong(op, d.rearrange(order))
}
