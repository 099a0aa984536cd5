// Package harness is what all benchmarks have in common: the flags, the device, the head of the report, the file with the numbers, cells
// that fail, and the exit code. What is timed, and how, is in package timing; what PyTorch does in packages torch and peer.
package harness
