package op

import "github.com/cistern-ml/cistern/device"

// Call is one launch of one operation. The specification of each ID says what its fields mean. The callee may read it
// only until it returns: what must outlive the launch is copied by the launcher.
type Call struct {
	Op     ID
	Stream device.Stream
	Out    []View
	In     []View
	F      [8]float64 // floating-point scalars
	I      [8]int64   // integer scalars
	Work   View       // contiguous bytes (Uint8) of at least what the row's Workspace asked for
}

// Clone returns a copy that shares nothing with c, for launches that run after their caller has returned.
func (c *Call) Clone() *Call {
	d := *c
	d.Out = append([]View(nil), c.Out...)
	d.In = append([]View(nil), c.In...)
	return &d
}
