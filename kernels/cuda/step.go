package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// What the optimizers' steps take from device memory: scale, flag, counters and settings. Counters are one more launch, of one thread for
// each: it computes the powers that depend on them once, not for each element.

// tableCounters is COUNTERS in src/optim.cu.
const tableCounters = 256

// factorBytes is what a counter leaves for its tensor: two numbers.
const factorBytes = 16

// Kinds of factors: CountKind in src/optim.cu.
const (
	countOnly = iota
	countFirst
	countAdam
	countAdagrad
)

var counting = named("optim", "count_steps")

// countKind is what a step makes of its count: Lion and RMSProp make nothing of it.
func countKind(c *op.Call) int32 {
	switch {
	case c.Op == op.AdamStep:
		return countAdam
	case c.Op == op.AdagradStep:
		return countAdagrad
	case c.Op == op.SGDStep && c.F[1] != 0:
		return countFirst
	}
	return countOnly
}

// factored reports whether the step needs what counters leave.
func factored(c *op.Call) bool { return c.I[4]&op.StepCounted != 0 && countKind(c) != countOnly }

// stepRow makes a row whose workspace is what counters leave for the tensors.
func stepRow(id op.ID, f func(dtype.DType) op.Func) op.Row {
	r := typedRow(id, f)
	r.Workspace = func(c *op.Call) uint64 {
		if !factored(c) {
			return 0
		}
		return factorBytes * uint64(c.I[0])
	}
	return r
}

// stepFunc makes the Func of an optimizer's step. See manyTensors.
func stepFunc(k *kernel, groups int, group func(c *op.Call, g, i int) *op.View, scalars func(*device.Params, *op.Call)) op.Func {
	rest := func(p *device.Params, c *op.Call, before int) {
		scalars(p, c)
		decided(p, c, before)
	}
	return func(c *op.Call) error {
		if c.I[4]&op.StepCounted != 0 { // first on the stream: the tables behind it read what it leaves
			if err := countSteps(c); err != nil {
				return err
			}
		}
		return launchTables(c, k, groups, group, rest)
	}
}

// decided appends a Decided, for a table before which there were so many tensors.
func decided(p *device.Params, c *op.Call, before int) {
	var w [4]uint64
	scale, found, _ := op.StepOperands(c)
	if scale != nil {
		w[0] = uint64(scale.Ptr)
	}
	if found != nil {
		w[1] = uint64(found.Ptr)
	}
	if factored(c) {
		w[2] = uint64(c.Work.Ptr.Add(factorBytes * uint64(before)))
	}
	w[3] = uint64(settingsAt(c))
	p.Words(w[:]...)
}

// settingsAt is the address of the settings, 0 where the scalars have them.
func settingsAt(c *op.Call) device.Ptr {
	if v := op.StepSettingsOperand(c); v != nil {
		return v.Ptr
	}
	return 0
}

// countSteps launches the counting: first of the tensors that are in tables, in their order, then of those without elements.
func countSteps(c *op.Call) error {
	t := takeTask()
	defer tasks.Put(t)
	_, _, counts := op.StepOperands(c)
	var w [1 + tableCounters]uint64
	before := 0
	// A tensor without elements has no place in a table, and its steps count all the same. It comes last: factors are found by the place in a table.
	for _, empty := range [2]bool{false, true} {
		for i := range counts {
			if (c.Out[i].Len() == 0) != empty {
				continue
			}
			w[0]++
			w[w[0]] = uint64(counts[i].Ptr)
			if w[0] == tableCounters {
				if err := launchCounts(t, c, w[:], before); err != nil {
					return err
				}
				before += tableCounters
				w[0] = 0
			}
		}
	}
	if w[0] == 0 {
		return nil
	}
	return launchCounts(t, c, w[:], before)
}

// launchCounts counts the steps of a table.
func launchCounts(t *task, c *op.Call, table []uint64, before int) error {
	_, found, _ := op.StepOperands(c)
	p := t.params.Words(table...)
	if found != nil {
		p.Ptr(found.Ptr)
	} else {
		p.Ptr(0)
	}
	if factored(c) {
		p.Ptr(c.Work.Ptr.Add(factorBytes * uint64(before)))
	} else {
		p.Ptr(0)
	}
	p.Int32(countKind(c)).Float64(c.F[0]).Float64(c.F[1]).Float64(c.F[2]).Ptr(settingsAt(c))
	return t.launch(c, counting, device.Dim3{X: 1})
}
