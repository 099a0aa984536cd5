package tensor

import "github.com/cistern-ml/cistern/device"

// ValuesError says that a simulated device does not have the values that an operation needs: those that the shape of a result depends on, which zeros in
// their place would change, and with it a program's memory, or those that a device that computes would go on with.
type ValuesError struct {
	Op     string // the operation, as in "Nonzero"
	Device device.ID
	onto   string // of a copy, the device that computes
}

// Error returns one line, as in "tensor: Nonzero: the result is as large as values say, and sim computes none".
func (e *ValuesError) Error() string {
	if e.onto != "" {
		return describe(e.Op, nil, e.Device.String()+" computes no values that "+e.onto+" could go on with")
	}
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
