package tensor

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
)

// Format prints one line with type, shape and device, and below it the values: a vector as [1  2], a matrix in brackets of as many
// lines as it has rows, and of more dimensions one matrix after another. What lies beyond eight along a dimension is left out in
// the middle. Flags: '#' leaves nothing out, '-' prints the values in one line. Verbs, width, precision and the other flags are those
// of single numbers, as in %.3f; %v suits every type. Of a large tensor only what is printed is brought to the host. Printing
// waits for the work before it on t's stream. What cannot be printed (a released tensor, an error of the device, a device
// without storage) is said in place of the values.
func (t *Tensor) Format(s fmt.State, verb rune) {
	if t == nil {
		fmt.Fprint(s, "tensor(nil)")
		return
	}
	if t.Released() {
		fmt.Fprint(s, "tensor(released)")
		return
	}
	fmt.Fprintf(s, "%s %s", t.dtype, t.Shape())
	if err := usable("Format", t); err != nil {
		fmt.Fprintf(s, " (%v)", err)
		return
	}
	fmt.Fprintf(s, " on %s", t.Device().ID())
	if x, ok := t.exec.stream.(device.Executor); ok && x.Mode() == device.ExecDiscard {
		fmt.Fprint(s, " (no storage)")
		return
	}
	if t.Len() == 0 {
		fmt.Fprint(s, "\n[]")
		return
	}
	if err := t.formatValues(s, verb); err != nil {
		fmt.Fprintf(s, " (%v)", err)
	}
}

// String is t as %v prints it.
func (t *Tensor) String() string { return fmt.Sprintf("%v", t) }

const (
	// printEnd is how many elements are printed of either end of a dimension of more than twice as many.
	printEnd = 4
	// printWhole is how many elements are brought to the host to print some of them: fewer need memory on the device, to be put together.
	printWhole = 4096
)

func (t *Tensor) formatValues(s fmt.State, verb rune) error {
	shown := t
	if t.Len() > printWhole && !s.Flag('#') {
		ends, err := t.ends()
		if err != nil {
			return err
		}
		defer ends.Release()
		shown = ends
	}
	cells, err := shown.cells(cellFormat(s, verb, t.dtype))
	if err != nil {
		return err
	}
	p := newPrinter(cells, shown.Shape(), t.Shape(), s.Flag('#'))
	p.out.WriteByte('\n')
	if s.Flag('-') {
		p.line(s.Flag('#'))
	} else {
		p.values()
	}
	_, err = s.Write(p.out.Bytes())
	return err
}

// ends keeps the first and the last elements along each long dimension, the longest dimension first.
func (t *Tensor) ends() (*Tensor, error) {
	kept := t.Retain()
	for {
		dim := 0
		for i, n := range kept.Shape() {
			if n > kept.Dim(dim) {
				dim = i
			}
		}
		if kept.NDim() == 0 || kept.Dim(dim) <= 2*printEnd {
			return kept, nil
		}
		next, err := kept.endsAlong(dim)
		kept.Release()
		if err != nil {
			return nil, err
		}
		kept = next
	}
}

func (t *Tensor) endsAlong(dim int) (*Tensor, error) {
	head, err := t.Narrow(dim, 0, printEnd)
	if err != nil {
		return nil, err
	}
	defer head.Release()
	tail, err := t.Narrow(dim, -printEnd, printEnd)
	if err != nil {
		return nil, err
	}
	defer tail.Release()
	return Cat([]*Tensor{head, tail}, dim)
}
