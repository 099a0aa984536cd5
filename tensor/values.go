package tensor

import "github.com/cistern-ml/cistern/device"

// ValuesError says that the shape of a result depends on values, which a simulated device does not have: zeros in their place would
// give it another shape, and a program another memory.
type ValuesError struct {
	Op     string // the operation, as in "Nonzero"
	Device device.ID
}

// Error returns one line, as in "tensor: Nonzero: the result is as large as values say, and sim computes none".
func (e *ValuesError) Error() string {
	return describe(e.Op, nil, "the result is as large as values say, and "+e.Device.String()+" computes none")
}

// Computes reports whether operations compute: on a simulated device tensors have no values, and reading them gives zeros.
func (e Exec) Computes() bool {
	x, ok := e.stream.(device.Executor)
	return !ok || x.Mode() != device.ExecDiscard
}

// valued refuses an operation whose result is as large as t's values say, if t has elements and no values.
func (t *Tensor) valued(name string) error {
	if t.Len() == 0 || t.exec.Computes() {
		return nil
	}
	return &ValuesError{Op: name, Device: t.Device().ID()}
}
