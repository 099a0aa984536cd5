//go:build amd64 && !linux

package cpu

// allowTiles reports that the registers of AMX cannot be used: how to ask for them is known for Linux.
func allowTiles() bool { return false }
