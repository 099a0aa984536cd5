package driver

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/windows"
)

var (
	libraryName    = "nvcuda.dll"
	libraryFolders []string
)

// OpenLibrary opens a library for the rest of the process. A plain name is looked for in System32 only, where the driver's
// installer puts it: the search in the current folder and PATH is how foreign code gets in.
func OpenLibrary(name string) (uintptr, error) {
	flags := uintptr(windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	if filepath.IsAbs(name) {
		flags = windows.LOAD_WITH_ALTERED_SEARCH_PATH
	}
	handle, err := windows.LoadLibraryEx(name, 0, flags)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return uintptr(handle), nil
}

// Symbol is the address of a function, 0 if the library has none of that name.
func Symbol(handle uintptr, name string) uintptr {
	address, err := windows.GetProcAddress(windows.Handle(handle), name)
	if err != nil {
		return 0
	}
	return address
}
