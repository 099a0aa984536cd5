// Package memprof shows device memory to Go's own tools.
//
//	http.Handle("/debug/memory/", memprof.Handler())   // beside net/http/pprof
//	memprof.Publish()                                  // and in expvar
//
// Then, of a running program:
//
//	go tool pprof -http=: http://host:6060/debug/memory/profile
//
// shows which lines of Go code hold device memory, as for the heap, /debug/memory/ is a page that draws all of it, and
// /debug/memory/snapshot.pickle is a file for PyTorch's memory viewer; Handler says more. Both need call stacks: a program that wants them calls RecordHistory on its allocators early,
// with ContextState at least. Blocks that were allocated without are shown as one.
//
// It is a package of its own so that programs which do not want all this do not link net/http.
package memprof
