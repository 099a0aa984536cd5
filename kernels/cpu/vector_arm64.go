package cpu

import "golang.org/x/sys/cpu"

func init() {
	if !cpu.ARM64.HasASIMD {
		return
	}
	vector = vectorLoops{functions: true}
}
