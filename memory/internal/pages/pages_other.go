//go:build !unix

package pages

import "errors"

// Supported reports whether there is such memory on this system. Windows has it, but gives an address, and making a slice
// of that is for package device alone.
const Supported = false

// Alloc fails with errors.ErrUnsupported.
func Alloc(int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Free fails with errors.ErrUnsupported.
func Free([]byte) error { return errors.ErrUnsupported }
