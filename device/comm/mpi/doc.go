// Package mpi is a group of ranks that an MPI launcher has started: Open MPI, MPICH and its relatives, loaded when the program asks for it.
// The library is not needed to build, nor to run on one device.
//
//	mpirun -n 4 ./train                  Open MPI
//	mpiexec.hydra -n 4 ./train           MPICH
//	srun --mpi=pmix -n 4 ./train         Slurm
//
// Started without a launcher the group is one rank. A launcher of another library than the one that is loaded would start n groups of one
// rank: Open compares the sizes and says so.
//
// # How it works
//
// One goroutine, tied to its thread for ever, makes all MPI calls: so any library that tolerates threads will do. Collectives come to it by
// a channel and are done one after the other in the order in which they were enqueued, whatever stream they are on. Each is begun without
// waiting and then polled, as MPI makes no progress by itself, and so that a time limit can be kept.
//
// Sums of float32, float64 and int64 are MPI's. Half-precision types, which MPI does not know, and Max and Min of floating types, where MPI
// leaves a NaN to chance, are combined here: each rank gets its part of the vector from all (Alltoall), combines it in the order of the
// ranks, and gives the result to all (Allgather). That moves as many bytes as a ring does, rounds once, and needs no callbacks into Go, which
// MPI could make from its own threads and which would round at each step. A cast to float32 before would double the bytes.
//
// Memory of host devices is used where it lies, outside Go's heap. For a GPU the data is copied to pinned memory and back, and the call
// waits for that and for the other ranks: it is meant for start-up and for small things.
//
// The engine's goroutine keeps a processor busy while a collective is under way, if nobody else wants it. Open MPI's mpirun ties each of few
// ranks to one core, which it shares with the whole program then: --bind-to none, or one rank per several cores (--map-by slot:PE=n), lets
// communication and computing overlap.
//
// # Faults
//
// Besides the collectives, the ranks have a channel on which they answer each other at any time, also while the program computes. A rank
// that has waited for the time limit asks all others where they are. From the answers, and their absence within a second, it learns who
// is to blame, tells all, and the group ends on all ranks:
//
//	no answer                  ErrPeer: killed, stopped, or cut off; on the same machine with what the system says of the process
//	is before the collective   ErrTimeout: the rank computes, or hangs, elsewhere. If it waits in an earlier collective, that is asked about
//	is in another collective   ErrMismatch, with both calls
//	all are in it              ErrTimeout without a rank: the network is slow, or the limit short
//
// Before there is a group, Open waits for all ranks, as MPI does when it starts, for as long as the time limit, and for at least a minute. It also compares whether all ranks check their calls.
// MPI_Init does not say for whom it waits, and without it ranks cannot speak to each other. So the error when the time is over has what a rank knows alone: its number and how many there are, from the launcher's environment, its host, the call that has not returned,
// and, on Linux, which of the launcher's processes on the same machine have not loaded the library, and so have not come to Open. If all of them have, a rank of another machine is missing, or the network between them is: its own log, or the launcher's, says more.
//
// A process of the same machine that has ended is noticed within half a second. So all ranks end within the time limit and three seconds. A
// rank that has ended its group makes no MPI calls any more: its program should say what happened and exit with an error, upon which
// launchers end what is left. Most launchers also end all ranks at once, by a signal, when one of them was killed; then it is the launcher
// that names it.
package mpi
