// Package lint holds the habits of this module as checks: what may import what, and what no file may contain. They run
// as ordinary tests (go test ./internal/lint), and every message names the remedy.
//
// A check is a function from the module, or from one of its files, to the problems that it finds. Each is short and has
// a test on sources of a few lines, where it must find something: a check that cannot fail is worse than none.
//
//	layers.go   the table of layers and the import check        (the picture in docs: device under memory and kernels, ...)
//	docs.go     exported identifiers and packages have a comment
//	calls.go    calls that have a better replacement here
//	panics.go   a panic says which invariant it defends
//	unsafe.go   package unsafe is used in the files that unsafe_files.txt lists
//	tree.go     the folders of the top level; the index of docs; no markers of unfinished work
//
// The sources are read from the file tree and not from go list, which leaves out what this platform does not build: a
// shortcut in a file for Windows is as wrong as one in a file for Linux. For the same reason build tags do not count.
package lint
