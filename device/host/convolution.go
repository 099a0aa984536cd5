package host

// SetExactConvolutions lets convolutions on this device be sums of products alone. Otherwise those of 3x3 and 5x5 with a stride of 1 in float32 and
// half precision, of 16 channels and more, are computed in Winograd's tiles: two to four times as fast, with errors of about 1e-5 of the
// root of the mean square of the results, where sums have 1e-6, and with tiles of 4x4 results, of 2x2 with kernels of 5x5, that are not
// finite where a value is not. It is off by default. Convolutions that run meanwhile may go either way.
func (d *Device) SetExactConvolutions(exact bool) { d.orAbsent().exact.Store(exact) }

// ExactConvolutions reports what SetExactConvolutions set.
func (d *Device) ExactConvolutions() bool { return d.orAbsent().exact.Load() }
