//go:build !linux && !darwin && !windows

package driver

import "errors"

var (
	libraryName    string
	libraryFolders []string
)

// OpenLibrary opens nothing.
func OpenLibrary(name string) (uintptr, error) {
	return 0, errors.New(name + ": libraries cannot be opened on this operating system")
}

// Symbol finds nothing.
func Symbol(uintptr, string) uintptr { return 0 }

// cross is never reached: there is no library to make a batch of.
func (b *Batch) cross() {
	// invariant: Batch needs a Library, and OpenLibrary gives none
	panic("driver: call without a library")
}
