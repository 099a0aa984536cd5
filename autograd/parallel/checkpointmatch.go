package parallel

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
