package parallel

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/internal/atomicfile"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/safetensors"
	"github.com/cistern-ml/cistern/tensor"
)

// What a part says of itself among its metadata, beside what files of package checkpoint do.
const (
	versionKey = "version"
	version    = "2"
	sectionKey = "section."
	kindKey    = "kind."
	partKey    = "part"
)

// partNote is under partKey. From it, and from the headers, the index is made.
type partNote struct {
	Save       string                    `json:"save"`
	Rank       int                       `json:"rank"`
	Ranks      int                       `json:"ranks"`
	Pieces     map[string]pieceNote      `json:"pieces,omitempty"` // of tensors that are not whole here
	Own        []string                  `json:"own,omitempty"`
	Sections   map[string]sectionEntry   `json:"sections,omitempty"`
	Optimizers map[string]optimizerEntry `json:"optimizers,omitempty"`
}

// pieceNote is of which tensor a flat one is a piece.
type pieceNote struct {
	Shape []int `json:"shape"`
	From  int   `json:"from"`
}

// saving is one call of Write on a rank.
type saving struct {
	c      *Checkpoint
	folder string
	step   int

	tensors  []safetensors.Named
	note     partNote
	metadata map[string]string
	dealt    []uint64 // bytes of whole tensors, by the rank that writes them
}

// collect lists what this rank writes, and changes nothing.
func (w *saving) collect() error {
	c := w.c
	w.note = partNote{Rank: c.rank(), Ranks: c.ranks(), Pieces: map[string]pieceNote{}, Sections: map[string]sectionEntry{}, Optimizers: map[string]optimizerEntry{}}
	w.metadata = map[string]string{safetensors.FormatKey: safetensors.Checkpoint, versionKey: version, sectionKey + modelSection: "null", kindKey + modelSection: "module"}
	w.dealt = make([]uint64, c.ranks())
	if err := w.collectModel(); err != nil {
		return err
	}
	for _, name := range c.names {
		s := c.sections[name]
		var err error
		switch {
		case s.opt != nil:
			err = w.collectOptimizer(name, s.opt)
		case s.own || c.rank() == 0:
			err = w.collectSection(name, s)
		}
		if err != nil {
			return within(w.folder, name, err)
		}
	}
	return nil
}

// within says in which section an error is.
func within(file, name string, err error) error {
	return &checkpoint.SectionError{File: file, Section: name, Err: err}
}

// holding is what of a parameter this rank updates.
type holding struct {
	name  string // of the parameter, in the model
	shape tensor.Shape
	from  int // the first element
	p     *autograd.Parameter
	whole bool // all of it, as all ranks have it
}

// holdings are those of this rank, of what is trained, by the parameter that an optimizer has.
func (c *Checkpoint) holdings() map[*autograd.Parameter]holding {
	all := map[*autograd.Parameter]holding{}
	if c.stage() == 0 {
		for _, n := range nn.NamedParameters(c.model) {
			all[n.Parameter] = holding{n.Name, n.Parameter.Shape(), 0, n.Parameter, true}
		}
		return all
	}
	for _, b := range c.d.buckets {
		parts := b.parts(c.d.entries(), c.d.comm.Rank(), c.d.comm.Size())
		for i, piece := range b.pieces { // cut made them in this order
			all[piece.p] = holding{piece.of.name, piece.of.p.Shape(), parts[i].from, piece.p, false}
		}
	}
	return all
}

// collectModel lists the model's values: the pieces of the rank, and its share of what is whole on all.
func (w *saving) collectModel() error {
	c := w.c
	if c.stage() > 0 {
		for _, h := range sorted(c.holdings()) {
			if err := w.addPiece(modelSection+"."+h.name, h, h.p.Tensor()); err != nil {
				return err
			}
		}
	}
	sharded := map[*autograd.Parameter]bool{}
	if c.stage() > 0 {
		for _, q := range c.d.params {
			sharded[q.p] = true
		}
	}
	for _, n := range nn.NamedParameters(c.model) {
		if sharded[n.Parameter] {
			continue
		}
		if err := w.addWhole(modelSection+"."+n.Name, n.Parameter.Tensor()); err != nil {
			return err
		}
	}
	for _, n := range nn.NamedBuffers(c.model) { // rank 0's are what the others get, unless each has its own
		name := modelSection + "." + n.Name
		own := c.d != nil && !c.d.set.buffers
		if own {
			w.note.Own = append(w.note.Own, name)
		}
		if own || c.rank() == 0 {
			if err := w.add(name, n.Parameter.Tensor()); err != nil {
				return err
			}
		}
	}
	return nil
}

// sorted is what a rank holds in the order of the names, so that files do not depend on chance.
func sorted(all map[*autograd.Parameter]holding) []holding {
	return slices.SortedFunc(maps.Values(all), func(a, b holding) int { return cmp.Compare(a.name, b.name) })
}

func (w *saving) add(name string, t *tensor.Tensor) error {
	if t == nil || t.Released() {
		return &tensor.ReleasedError{Op: "Write of " + name, Nil: t == nil}
	}
	w.tensors = append(w.tensors, safetensors.Named{Name: name, Tensor: t})
	return nil
}

func (w *saving) addPiece(name string, h holding, t *tensor.Tensor) error {
	w.note.Pieces[name] = pieceNote{Shape: append([]int{}, h.shape...), From: h.from}
	return w.add(name, t)
}

// addWhole adds what all ranks have alike, if it is this one's turn: that of those who have least.
func (w *saving) addWhole(name string, t *tensor.Tensor) error {
	if t == nil || t.Released() {
		return &tensor.ReleasedError{Op: "Write of " + name, Nil: t == nil}
	}
	turn := 0
	for rank, bytes := range w.dealt {
		if bytes < w.dealt[turn] {
			turn = rank
		}
	}
	w.dealt[turn] += uint64(t.Len())*uint64(t.DType().Size()) + 1 // empty ones go round too
	if turn != w.c.rank() {
		return nil
	}
	return w.add(name, t)
}

// collectSection lists what a section has.
func (w *saving) collectSection(name string, s section) error {
	content, err := s.Save()
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(content.Tensors)) {
		if err := w.add(name+"."+n, content.Tensors[n]); err != nil {
			return err
		}
	}
	if content.JSON == nil {
		content.JSON = json.RawMessage("null")
	}
	w.metadata[sectionKey+name], w.note.Sections[name] = string(content.JSON), sectionEntry{s.own}
	if content.Kind != "" {
		w.metadata[kindKey+name] = content.Kind
	}
	return nil
}

// collectOptimizer lists the state that an optimizer has on this rank, and notes the rest.
func (w *saving) collectOptimizer(name string, o *optim.Grouped) error {
	dict, err := o.StateDict()
	if err != nil {
		return err
	}
	held, params := w.c.holdings(), o.Parameters()
	entry := optimizerEntry{Optimizer: dict.Optimizer, State: map[string]stateEntry{}}
	names := make([]string, len(params))
	for n, p := range params {
		h, ok := held[p]
		if !ok {
			return &checkpoint.MismatchError{Detail: fmt.Sprintf("its parameter %d (%s) is not among those of DataParallel.Parameters, or of the model", n, excerpt.Quote(p.Name()))}
		}
		names[n] = h.name
		state, ok := dict.State[n]
		if !ok {
			continue
		}
		kept := stateEntry{Step: state.Step}
		for _, key := range slices.Sorted(maps.Keys(state.Tensors)) {
			kept.Tensors = append(kept.Tensors, key)
			if err := w.addState(name+"."+h.name+"."+key, h, state.Tensors[key]); err != nil {
				return err
			}
		}
		entry.State[h.name] = kept
	}
	for _, g := range dict.Groups {
		numbers, _ := g["params"].([]int)
		of := make([]string, len(numbers))
		for i, n := range numbers {
			of[i] = names[n]
		}
		g = maps.Clone(g)
		g["params"] = of
		entry.Groups = append(entry.Groups, g)
	}
	w.note.Optimizers[name] = entry
	return nil
}

// addState adds a tensor of an optimizer's state: one with an element for each of the parameter's, or a number for all of it, which ranks that have a piece of it have the same.
func (w *saving) addState(name string, h holding, t *tensor.Tensor) error {
	switch {
	case h.whole:
		return w.addWhole(name, t)
	case t.Shape().Equal(h.p.Shape()):
		return w.addPiece(name, h, t)
	case t.Len() != 1:
		return &checkpoint.MismatchError{Detail: fmt.Sprintf("%s has shape %v, for a piece of %d elements: such a state is for ZeRO 0", name, t.Shape(), h.p.Len())}
	case h.from == 0:
		return w.add(name, t)
	}
	return nil
}

// name gives the Write a number, on all ranks the same.
func (w *saving) name(op string) error {
	var own [8]byte
	if w.c.rank() == 0 {
		if _, err := rand.Read(own[:]); err != nil {
			return w.c.wrong(op, err) // it never fails
		}
	}
	number := int64(binary.LittleEndian.Uint64(own[:]))
	if d := w.c.d; d != nil {
		all, err := d.broadcastNumbers("number of a checkpoint", []int64{number})
		if err != nil {
			return d.fatal(op, err)
		}
		number = all[0]
	}
	w.note.Save = fmt.Sprintf("%016x", uint64(number))
	return nil
}

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
