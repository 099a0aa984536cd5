package sim

// fault is a failure that FailNext ordered.
type fault struct {
	kind CallKind
	left int // calls of the kind until it is due; 1 is the next
	err  error
}

// FailNext makes one coming call of a kind fail with an *device.Error that wraps err: the next one for nth 1, the one after
// that for nth 2, and so on. The call has no effect. Several orders are counted independently of each other.
func (d *Device) FailNext(kind CallKind, nth int, err error) {
	if d = d.orAbsent(); d == absent {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.faults = append(d.mu.faults, fault{kind: kind, left: max(nth, 1), err: err})
}

// Inject sets a function that is asked before each call, whether it is to fail and with which error. It is how a test makes
// calls fail at random, or each third one, or all above a size. Nil ends it. The function must not call the device.
func (d *Device) Inject(f func(Call) error) {
	if d = d.orAbsent(); d == absent {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.inject = f
}

// fault returns the error that c is to fail with. The caller holds d.mu.
func (d *Device) fault(c Call) error {
	var due error
	for i := 0; i < len(d.mu.faults); i++ {
		f := &d.mu.faults[i]
		if f.kind != c.Kind {
			continue
		}
		if f.left--; f.left > 0 {
			continue
		}
		if due == nil {
			due = f.err
		}
		d.mu.faults = append(d.mu.faults[:i], d.mu.faults[i+1:]...)
		i--
	}
	if due == nil && d.mu.inject != nil {
		due = d.mu.inject(c)
	}
	return due
}
