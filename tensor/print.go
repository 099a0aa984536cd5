package tensor

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
)

// Format prints one line with type, shape and device, and below it the values, as gorgonia.org/tensor prints them: rows and
// columns beyond eight are left out in the middle; with '#' nothing is; with '-' the values are flat. Verbs and precision
// are those of numbers, as in %.3f. Of a large tensor only the ends of each dimension are brought to the host. Printing
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

// Tensors of more than printWhole elements are printed by the ends of their dimensions: leading and trailing elements, one
// more in sum than the formatter shows, so that it marks the gap.
const (
	printWhole    = 4096
	printLeading  = 5
	printTrailing = 4
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
	d, err := shown.Dense()
	if err != nil {
		return err
	}
	if t.NDim() > 2 && shown != t {
		fmt.Fprint(s, " (the ends of each dimension)")
	}
	fmt.Fprintln(s)
	d.Format(s, verb)
	return nil
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
		if kept.Dim(dim) <= printLeading+printTrailing {
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
	head, err := t.Narrow(dim, 0, printLeading)
	if err != nil {
		return nil, err
	}
	defer head.Release()
	tail, err := t.Narrow(dim, -printTrailing, printTrailing)
	if err != nil {
		return nil, err
	}
	defer tail.Release()
	return Cat([]*Tensor{head, tail}, dim)
}
