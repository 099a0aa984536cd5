//go:build !linux

package libmpi

// keepSignalStack is for Linux.
func (l *Library) keepSignalStack() {}
