// Package harness is what all benchmarks have in common: flags, the device, the head of the report, the file with the numbers, and
// cells that fail. Main and exit codes are those of all programs, in internal/command. What is timed, and how, is in package timing; what
// PyTorch does in packages torch and peer.
package harness
