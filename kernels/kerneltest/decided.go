package kerneltest

import (
	"math"
	"slices"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// decided is what a step of an optimizer takes from memory: flags are op.StepFlags, found is the flag, and the counters of the
// tensors are taken from counts in turn. With settings there the call has other ones, which count for nothing.
type decided struct {
	flags  int64
	scale  float64
	found  float64
	counts []int64
}

func (d *decided) has(flag int64) bool { return d.flags&flag != 0 }

// skips reports whether nothing may be written.
func (d *decided) skips() bool { return d.has(op.StepGuarded) && d.found != 0 }

func (d *decided) count(i int) int64 { return d.counts[i%len(d.counts)] }

// manyShapes are more tensors than a launch takes, some of them empty.
func manyShapes() (shapes [][]int) {
	for i := range 300 {
		shapes = append(shapes, []int{i * 7 % 4})
	}
	return shapes
}

// decidedSteps are the cases of steps that are decided on the device.
func (m *maker) decidedSteps(all []scalars, emit func(*testCase)) {
	const everything = op.StepScaled | op.StepGuarded | op.StepCounted
	const counted = op.StepCounted | op.StepSettings
	mixed := []int64{0, 1, 4, 4, 999, 0}
	for i, s := range all {
		for _, d := range []decided{
			{flags: op.StepScaled, scale: 3},
			{flags: op.StepGuarded},
			{flags: op.StepCounted, counts: mixed},
			{flags: everything, scale: 0.25, counts: mixed[i%2:]},
			{flags: everything, scale: 65536, found: 1, counts: mixed},
			{flags: counted, counts: mixed},
			{flags: everything | op.StepSettings, scale: 3, counts: mixed[i%2:]},
		} {
			emit(m.step(s, stepShapes[3], d))
		}
	}
	last := all[len(all)-1]
	for _, found := range []float64{0, 0.5, math.NaN()} {
		emit(m.step(all[0], stepShapes[4], decided{flags: everything, scale: 8, found: found, counts: mixed}))
		emit(m.step(last, manyShapes(), decided{flags: everything, scale: 2, found: found, counts: mixed}))
		emit(m.step(last, stepShapes[2], decided{flags: op.StepGuarded | op.StepCounted, found: found, counts: mixed}))
	}
	emit(m.step(last, manyShapes(), decided{flags: op.StepScaled, scale: 0.5}))
	emit(m.step(last, manyShapes(), decided{flags: counted, counts: mixed}))
	if m.id != op.AdamStep && m.id != op.AdagradStep { // they count where their settings are in memory
		emit(m.step(last, stepShapes[4], decided{flags: op.StepSettings}))
	}
}

// spoil makes an element of a gradient infinite or NaN, where the step is left out for that.
func (d *decided) spoil(grad *tensor, i int) {
	if n := len(grad.values); d.skips() && n > 0 {
		grad.values[i%n] = floatValue([]float64{math.Inf(1), math.NaN(), math.Inf(-1)}[i%3])
	}
}

// gradient is one element divided by the scale.
func (d *decided) gradient(g float64) float64 {
	if d.has(op.StepScaled) {
		return g * round(dtype.Float32, 1/d.scale)
	}
	return g
}

// scalarsOf are the scalars of a call for tensor i: with the number of its step, if that is counted in memory.
func (d *decided) scalarsOf(c *op.Call, i int) (f [8]float64, flags [8]int64) {
	f, flags = c.F, c.I
	if !d.has(op.StepCounted) {
		return f, flags
	}
	step := d.count(i) + 1
	switch c.Op {
	case op.AdamStep:
		f[5] = float64(step)
	case op.AdagradStep:
		f[4] = float64(step)
	case op.SGDStep:
		flags[1] = b2i(step == 1)
	}
	return f, flags
}

// finish adds the operands to a case of n tensors, and the counters as they must be afterwards.
func (d *decided) finish(c *testCase, n int) {
	if d.has(op.StepScaled) {
		c.in = append(c.in, single(dtype.Float32, floatValue(d.scale)))
	}
	if d.has(op.StepGuarded) {
		c.in = append(c.in, single(dtype.Float32, floatValue(d.found)))
	}
	if d.has(op.StepSettings) {
		c.in = append(c.in, settingsOf(&c.call))
	}
	for i := 0; i < n && d.has(op.StepCounted); i++ {
		after := d.count(i) + 1
		if d.skips() {
			after--
		}
		c.out = append(c.out, single(dtype.Int64, intValue(d.count(i))))
		c.want = append(c.want, []result{{value: intValue(after)}})
	}
}

// settingsOf moves the scalars of a call to memory, and leaves others in their place: not 0 where these are not, because the groups depend
// on that.
func settingsOf(c *op.Call) *tensor {
	t := newTensor(dtype.Float64, contiguous, op.StepScalars)
	for i, v := range slices.Clone(c.F[:]) {
		t.values[i] = floatValue(v)
		c.F[i] = 3 * v
	}
	return t
}
