package memreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oplabel"
)

// Report is where memory went. All sizes are bytes of blocks, as the allocator's statistics count them.
type Report struct {
	Device string     `json:"device"`
	Start  uint64     `json:"start_bytes"` // allocated when the recording began
	Peak   uint64     `json:"peak_bytes"`  // the most that was allocated at a time
	End    uint64     `json:"end_bytes"`   // allocated when it ended
	AtPeak Categories `json:"at_peak"`     // what Peak is made of

	Reserved     uint64 `json:"peak_reserved_bytes"` // what the allocator had from the driver when Peak was reached
	MostReserved uint64 `json:"most_reserved_bytes"` // the most that it had at any time
	PeakAt       Moment `json:"peak_moment"`         // when Peak was first reached

	// Hint says what would tell more, where much of Peak was there before the recording began and nobody has told what for. It is for people.
	Hint string `json:"hint,omitempty"`

	// The largest at the peak are first. Breakdown has a row for each operation of each module.
	Modules    []Row `json:"modules"`
	Operations []Row `json:"operations"`
	Breakdown  []Row `json:"breakdown"`
}

// Moment is what a program was doing when the peak was reached: what asked for the last block.
type Moment struct {
	Pass      string `json:"pass"`                // one of the passes below
	Operation string `json:"operation,omitempty"` // as in Row
	Module    string `json:"module,omitempty"`    // as in Row
	Model     bool   `json:"model,omitempty"`     // as in Row
}

// The passes of a Moment. What a checkpoint computes once more is a part of the backward pass.
const (
	PassForward       = "forward"
	PassRecomputation = "recomputation"
	PassBackward      = "backward"
	PassOptimizer     = "optimizer step"
	PassBeginning     = "beginning" // nothing was ever above what there was at first
	PassOutside       = "outside"   // no operation has asked for it
)

// momentOf is the moment of a label.
func momentOf(found memmeter.Result) Moment {
	l := found.At
	m := Moment{Pass: PassForward, Operation: l.Op, Module: l.Module, Model: l.Model}
	switch {
	case found.Began:
		m.Pass = PassBeginning
	case l == (oplabel.Label{}):
		m.Pass = PassOutside
	case l.Step:
		m.Pass = PassOptimizer
	case l.Backward:
		m.Pass = PassBackward
	case l.Again:
		m.Pass = PassRecomputation
	}
	return m
}

// String is as in "in the backward pass, in linear_bias of layers.0.fc1".
func (m Moment) String() string {
	in := m.Operation
	switch {
	case m.Module != "":
		in += " of " + m.Module
	case m.Model:
		in += " of " + modelName
	}
	switch m.Pass {
	case PassBeginning:
		return "at the beginning"
	case PassForward:
		return "in the forward pass, in " + in
	case PassRecomputation:
		return "in the backward pass, where a checkpoint computes once more, in " + in
	case PassBackward:
		return "in the backward pass, in " + in
	case PassOptimizer:
		return "in the optimizer's step, in " + in
	}
	return "outside of all operations"
}

// modelName is the name of what a model itself does, which has no path.
const modelName = "(model)"

// Row is what a module, without the modules in it, or an operation has moved, and what of it was there at the peak. What was allocated before the recording
// began is in AtPeak and, if it was freed, in Freed, so that of all rows Allocated less Freed is End less Start.
type Row struct {
	Module    string `json:"module,omitempty"`    // the path in the model; empty outside of all modules, of the model itself, and in rows of operations
	Model     bool   `json:"model,omitempty"`     // of the model itself, besides the modules in it
	Operation string `json:"operation,omitempty"` // PyTorch's name; empty for what no operation did, and in rows of modules
	Backward  bool   `json:"backward,omitempty"`  // of an operation: of its gradients

	Allocations uint64     `json:"allocations"` // how many
	Allocated   uint64     `json:"allocated_bytes"`
	Freed       uint64     `json:"freed_bytes"` // of what it allocated
	Saved       uint64     `json:"saved_bytes"` // kept for backward, without parameters; each block for the operation that saved it first
	AtPeak      Categories `json:"at_peak"`
}

// Categories divide memory by what it is for: the package comment says how.
type Categories struct {
	Parameters     uint64 `json:"parameters"`
	Gradients      uint64 `json:"gradients"`
	OptimizerState uint64 `json:"optimizer_state"`
	Activations    uint64 `json:"activations"`
	Inputs         uint64 `json:"inputs"`
	Workspace      uint64 `json:"workspace"`
	Other          uint64 `json:"other"`
}

// Total is the sum.
func (c Categories) Total() (sum uint64) {
	for _, n := range c.list() {
		sum += n
	}
	return sum
}

// categoryNames are for people, in the order of list.
var categoryNames = [...]string{"parameters", "gradients", "optimizer state", "activations", "inputs", "workspace", "other"}

func (c Categories) list() [7]uint64 {
	return [...]uint64{c.Parameters, c.Gradients, c.OptimizerState, c.Activations, c.Inputs, c.Workspace, c.Other}
}

func (c *Categories) add(by [memmeter.Uses]uint64) {
	c.Parameters += by[memmeter.Parameter]
	c.Gradients += by[memmeter.Gradient]
	c.OptimizerState += by[memmeter.State]
	c.Activations += by[memmeter.Activation]
	c.Inputs += by[memmeter.Input]
	c.Workspace += by[memmeter.Workspace]
	c.Other += by[memmeter.Unknown]
}

// newReport sums up what a meter found.
func newReport(of string, found memmeter.Result, modelTold, stateTold bool) *Report {
	r := &Report{Device: of, Start: found.Start, Peak: found.Peak, End: found.End, Reserved: found.Reserved, MostReserved: found.MostReserved, PeakAt: momentOf(found)}
	for _, s := range found.Sums {
		r.AtPeak.add(s.AtPeak)
	}
	r.Hint = hint(found, modelTold, stateTold)
	r.Modules = rows(found.Sums, func(s memmeter.Sum) Row { return Row{Module: s.Module, Model: s.Model} })
	r.Operations = rows(found.Sums, func(s memmeter.Sum) Row { return Row{Operation: s.Op, Backward: s.Backward} })
	r.Breakdown = rows(found.Sums, func(s memmeter.Sum) Row {
		return Row{Module: s.Module, Model: s.Model, Operation: s.Op, Backward: s.Backward}
	})
	return r
}

// hint is Report.Hint, empty if there is less than a twentieth to tell of, or everything was said that options can say.
func hint(found memmeter.Result, modelTold, stateTold bool) string {
	var missing []string
	if !stateTold {
		missing = append(missing, "memreport.WithOptimizer names optimizer state, where no step is recorded")
	}
	if !modelTold {
		missing = append(missing, "memreport.WithModel names parameters, where no graph uses them")
	}
	if len(missing) == 0 || found.Untold == 0 || found.Untold < found.Peak/20 {
		return ""
	}
	return fmt.Sprintf("Of other and workspace, %s were there before the recording began: %s.", device.FormatBytes(found.Untold), strings.Join(missing, ", and "))
}

// rows adds up the sums with the same key, a row without numbers.
func rows(sums []memmeter.Sum, key func(memmeter.Sum) Row) []Row {
	at, list := map[Row]int{}, []Row{}
	for _, s := range sums {
		i, ok := at[key(s)]
		if !ok {
			i = len(list)
			at[key(s)], list = i, append(list, key(s))
		}
		r := &list[i]
		r.Allocations += s.Allocations
		r.Allocated += s.Allocated
		r.Freed += s.Freed
		r.Saved += s.Saved
		r.AtPeak.add(s.AtPeak)
	}
	slices.SortFunc(list, func(x, y Row) int {
		return cmp.Or(cmp.Compare(y.AtPeak.Total(), x.AtPeak.Total()), cmp.Compare(y.Allocated, x.Allocated), cmp.Compare(x.Name(), y.Name()), cmp.Compare(x.operation(), y.operation()))
	})
	return list
}

// Name is that of the module or, where there is none, of the operation: "(model)" for a model itself, which has no path, and "(outside)" for what was outside of all.
func (r Row) Name() string {
	switch {
	case r.Module != "":
		return r.Module
	case r.Model:
		return modelName
	}
	return r.operation()
}

// operation is the name of the operation.
func (r Row) operation() string {
	switch {
	case r.Operation == "":
		return "(outside)"
	case r.Backward:
		return r.Operation + " (backward)"
	}
	return r.Operation
}

// within are the rows of Breakdown of a module.
func (r *Report) within(module Row) (list []Row) {
	for _, row := range r.Breakdown {
		if row.Module == module.Module && row.Model == module.Model {
			list = append(list, row)
		}
	}
	return list
}
