package memreport

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/internal/memmeter"
)

// Report is where memory went. All sizes are bytes of blocks, as the allocator's statistics count them.
type Report struct {
	Device string     `json:"device"`
	Start  uint64     `json:"start_bytes"` // allocated when the recording began
	Peak   uint64     `json:"peak_bytes"`  // the most that was allocated at a time
	End    uint64     `json:"end_bytes"`   // allocated when it ended
	AtPeak Categories `json:"at_peak"`     // what Peak is made of

	Modules    []Row `json:"modules"`    // the largest at the peak first
	Operations []Row `json:"operations"` // the largest at the peak first
}

// Row is what a module, without the modules in it, or an operation has moved, and what of it was there at the peak. What was allocated before the recording
// began is in AtPeak and, if it was freed, in Freed, so that of all rows Allocated less Freed is End less Start.
type Row struct {
	Module    string `json:"module,omitempty"`    // the path in the model; empty outside of all modules, and in rows of operations
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
func newReport(device string, found memmeter.Result) *Report {
	r := &Report{Device: device, Start: found.Start, Peak: found.Peak, End: found.End}
	for _, s := range found.Sums {
		r.AtPeak.add(s.AtPeak)
	}
	r.Modules = rows(found.Sums, func(s memmeter.Sum) Row { return Row{Module: s.Module} })
	r.Operations = rows(found.Sums, func(s memmeter.Sum) Row { return Row{Operation: s.Op, Backward: s.Backward} })
	return r
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
		return cmp.Or(cmp.Compare(y.AtPeak.Total(), x.AtPeak.Total()), cmp.Compare(y.Allocated, x.Allocated), cmp.Compare(x.Name(), y.Name()))
	})
	return list
}

// Name is that of the module or the operation, "(outside)" for what was outside of all: a model itself, which has no path, is there too.
func (r Row) Name() string {
	switch {
	case r.Module != "":
		return r.Module
	case r.Operation == "":
		return "(outside)"
	case r.Backward:
		return r.Operation + " (backward)"
	}
	return r.Operation
}
