// Package nccl is a group of ranks on NVIDIA GPUs: NCCL (libnccl.so.2, version 2.14 or later), loaded when the program asks for it. The
// library is not needed to build, nor to run on one device.
//
// NCCL does not start the ranks, and they must hear of each other in another way first, a Group:
//
//	ByComm(c)                    the ranks of another Comm: those of package mpi, which a launcher has started
//	ByFile(rank, size, path)     a file in a folder that all of them see
//	ByAddress(rank, size, at)    an address, "host:port", at which rank 0 listens
//
// A rank is best a process of its own with one GPU. Ranks of one process work too, each with its own device and goroutine, but some calls of
// CUDA's, such as those that free pinned memory, wait for all devices of the process, and so for a collective that waits for the goroutine
// which has called.
//
// # How it works
//
// A collective is enqueued on the stream and the call returns, as with a kernel. NCCL does the collectives of one group in the order of the
// calls, whatever streams they are on. AllToAll is a group of sends and receives, Barrier the sum of one number on a stream of its own. Streams that
// are being captured are refused, since nobody would watch over what a graph replays.
//
// NCCL takes memory of the GPU for itself, which no allocator here knows of: some hundred MiB, by the number of ranks and ways between them.
//
// # Numbers
//
// Arithmetic is NCCL's, and not in all that of package comm:
//
//	sums of float16, bfloat16    are rounded at each step from rank to rank, not once at the end
//	Mean of floating types       each element is multiplied by 1/n, rounded to the type, before the sum: exact where n is a power of two
//	Max and Min                  a NaN of one rank may be lost beside numbers of others
//	all sums                     their order depends on the algorithm that NCCL takes: the ranks agree, but another number of ranks, another
//	                             version or machine may give other last bits
//
// # Faults
//
// NCCL tells of some errors of its own (ncclCommGetAsyncError), which are watched, but a rank that is late or gone makes the others wait for ever. So each
// rank has a connection to rank 0, over TCP, besides: over it goes no data, but who is there, what was called, and what has ended the group.
//
//	a connection ends            ErrPeer, at once: the process was killed, or ended without Close
//	a rank closes                ErrPeer, at once, if others make calls that it has not made
//	the time limit is over       rank 0 asks all where they are. Who does not answer within a second is to blame (ErrPeer: stopped, or cut off),
//	                             or who makes another call (ErrMismatch), or has not come to it, or whose stream has not (ErrTimeout)
//	NCCL says that a rank is gone   ErrPeer, without a rank's number if no connection has ended within a second
//	NCCL or the driver fails     ErrLibrary, and the rank where it did
//
// All ranks then abort their communicators (ncclCommAbort), which ends what of them runs on the GPUs. Collectives that were enqueued and not done have failed: the next
// wait for their streams says so (cuda's Stream.Fail), for which the streams are marked before the abort. What is being called, and what comes later, fails in its call. What is in the buffers nobody knows.
//
// The time limit counts from when the rank's own stream has come to the collective. All ranks end within it and five seconds. The communicator of a group that has
// ended cannot be used again: start the ranks anew, from a checkpoint.
//
// This package has run with the emulated NCCL of the tests only, and not with a GPU. Its constants and signatures are compared with nccl.h of
// 2.22 and 2.29, whose libraries were loaded.
package nccl
