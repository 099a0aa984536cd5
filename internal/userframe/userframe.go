// Package userframe tells the lines of a program from those of this library, which nobody who looks for the cause of something wants to see.
package userframe

import (
	"runtime"
	"strings"
)

// root is the folder of this module, as the compiler writes it in the names of files.
var root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return strings.TrimSuffix(file, "internal/userframe/userframe.go")
}()

// Library reports whether a file, as the compiler recorded it, belongs to this library, and not to a program, an example or a test. It goes by
// files, because a closure that is inlined has its caller's package in the name of its function.
func Library(file string) bool {
	path, ours := strings.CutPrefix(file, root)
	if !ours || strings.HasSuffix(path, "_test.go") {
		return false
	}
	switch folder, _, _ := strings.Cut(path, "/"); folder {
	case "amp", "autograd", "device", "kernels", "memory", "tensor":
		return true
	}
	return false
}

// Cut returns the frames of a call stack, innermost first, that say something to those who have written the program: their own all, and of
// each run of the library's the innermost and the outermost.
func Cut(stack []runtime.Frame) []runtime.Frame {
	cut := make([]runtime.Frame, 0, len(stack))
	for i, f := range stack {
		inside := i > 0 && i < len(stack)-1 && Library(stack[i-1].File) && Library(f.File) && Library(stack[i+1].File)
		if !inside {
			cut = append(cut, f)
		}
	}
	return cut
}
