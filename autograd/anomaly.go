package autograd

import "github.com/cistern-ml/cistern/tensor"

// finite passes t on, unless it has an element that is NaN, as torch.autograd.detect_anomaly does. It waits for the device.
func finite(t *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	differs := w.do(t.Ne(t))
	any := w.do(differs.Any(nil, false))
	if w.err == nil {
		v, err := any.Item()
		if err == nil && v != 0 {
			err = ErrNaN
		}
		if err != nil {
			w.fail(err)
		}
	}
	return w.result(t, nil)
}
