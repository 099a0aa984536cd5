package kerneltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
)

// compare looks for wrong elements, and for bytes that changed and should not have.
func (c *testCase) compare(before, after []byte, slack float64) error {
	rest := bytes.Clone(after) // with the outputs put back to what they were
	for o, t := range c.out {
		var wrong error
		size := t.dtype.Size()
		each(t.shape, func(p int, index []int) {
			at := t.address(index)
			copy(rest[at:at+size], before[at:at+size])
			if wrong == nil && !c.accepts(t.dtype, c.want[o][p], after[at:at+size], slack) {
				wrong = c.wrongElement(o, p, index, decode(after[at:], t.dtype))
			}
		})
		if wrong != nil {
			return wrong
		}
	}
	for i := range rest {
		if rest[i] != before[i] {
			return fmt.Errorf("%s: byte %d, which is no element of an output, changed from %#x to %#x%s",
				c, i, before[i], rest[i], c.owner(i))
		}
	}
	return nil
}

// accepts reports whether the bytes of an element are right.
func (c *testCase) accepts(d dtype.DType, want result, got []byte, slack float64) bool {
	if want.any {
		return true
	}
	g := decode(got, d)
	if c.bits && !(math.IsNaN(want.f) && math.IsNaN(g.f)) {
		return bytes.Equal(got, encode(nil, d, want.value))
	}
	if !d.IsFloat() {
		return g.i == want.i
	}
	if want.most != 0 && g.f > want.most {
		return false
	}
	return near(d, want, g.f, c.ulps*slack)
}

// near is the rule of the package comment.
func near(d dtype.DType, want result, got, ulps float64) bool {
	v := want.f
	switch {
	case math.IsNaN(v) || math.IsNaN(got):
		return math.IsNaN(v) && math.IsNaN(got)
	case got == round(d, v):
		return true
	case math.IsInf(v, 0):
		return false
	}
	computed := dtype.Float32
	if d == dtype.Float64 {
		computed = d
		ulps += 2 // the reference is no better
	}
	scale := max(math.Abs(v), want.scale)
	tolerance := 0.5*ulp(d, v) + ulps*ulp(computed, scale)
	if math.IsInf(got, 0) { // an overflow that the exact value just missed
		return math.Abs(v)+tolerance >= largest(d) && math.Signbit(got) == math.Signbit(v)
	}
	return math.Abs(got-v) <= tolerance
}

func (c *testCase) wrongElement(o, p int, index []int, got value) error {
	want := c.want[o][p]
	var operands string
	for i, t := range c.in {
		if len(t.values) == len(c.out[o].values) {
			operands += fmt.Sprintf(", input %d there %s", i, show(t.dtype, t.values[p]))
		}
	}
	d := c.out[o].dtype
	return fmt.Errorf("%s: output %d at %v is %s, want %s (scale %g)%s",
		c, o, index, show(d, got), show(d, want.value), want.scale, operands)
}

func show(d dtype.DType, v value) string {
	if d.IsFloat() {
		return fmt.Sprintf("%.9g", v.f)
	}
	return fmt.Sprint(v.i)
}

// owner says whose memory a byte of the image is near to.
func (c *testCase) owner(i int) string {
	for k, t := range c.in {
		if i >= t.place-guard && i < t.place+t.span*t.dtype.Size() {
			return fmt.Sprintf(", in or before input %d", k)
		}
	}
	for k, t := range c.out {
		if i >= t.place-guard && i < t.place+t.span*t.dtype.Size()+guard {
			return fmt.Sprintf(", at byte %d of output %d", i-t.place, k)
		}
	}
	return ""
}

func (c *testCase) String() string {
	return fmt.Sprintf("%s out %v in %v alias %d F %v I %v", c.call.Op, c.out, c.in, c.alias, c.call.F, c.call.I)
}

func wantError(err, want error) error {
	switch {
	case err == nil:
		return fmt.Errorf("the call succeeded, want %q", want)
	case !errors.Is(err, want):
		return fmt.Errorf("the call failed with %q, want %q", err, want)
	}
	return nil
}
