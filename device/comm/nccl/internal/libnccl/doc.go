// Package libnccl is NCCL as a C library: where it is, what its functions and numbers are. It knows nothing of ranks.
package libnccl
