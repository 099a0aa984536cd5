// Package libmpi calls an MPI library that is found when the program runs: Open MPI, MPICH and its relatives, or one with the binary
// interface of MPI 5.
//
//	constants.go  what the libraries' headers would say: handles, types, special values. A test compares it with those of Debian
//	open.go       finds a library and tells which kind it is
//	calls.go      the functions that package mpi needs
//
// MPI's functions are called from one thread, the one that called Init: whoever uses a Library sees to that. Addresses that a library keeps
// beyond a call (requests, buffers) are of memory outside the Go heap and stack.
package libmpi
