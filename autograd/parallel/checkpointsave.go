package parallel

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
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
