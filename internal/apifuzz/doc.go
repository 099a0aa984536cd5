// Package apifuzz holds a test, and no code for others: it calls every exported function and method of the packages that programs
// import with arguments that nobody should pass, and finds out whether a mistake is a panic, hangs, or keeps memory.
//
//	gen               lists functions, types and error sentinels in exported_test.go, which go generate writes
//	targets_test.go   what is called: the functions, and the methods that reflection finds
//	world_test.go     the device, the allocator and the graph of one call
//	values_test.go    arguments by type: small and huge numbers, tensors of all kinds, nil, and what constructors make
//	probe_test.go     one call and what must be true of it
//	excluded_test.go  what is not called, or may do what others may not, with reasons
//	apifuzz_test.go   the test
//
// Methods of pointers are also called on a nil pointer, "(*memory.Pool)(nil).Alloc", and on a zero value, "new(memory.Pool).Alloc".
//
// Each call has a world of its own: its arguments are made for it and released after it, so that every failure is one line that
// stands for itself, and a name with a number finds it again (APIFUZZ_CALL). What must hold: the call returns; it does not panic; its
// errors are of an exported type or wrap an exported sentinel; when all that it returned and was given has been released, nothing is
// allocated; and it does not ask for gigabytes of Go memory.
package apifuzz

//go:generate go run ./gen
