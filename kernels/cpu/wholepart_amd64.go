package cpu

// wholePart is x without its fraction; the lowest int64 for what is beyond int64, and for NaN, as the instruction has it.
func wholePart(x float64) int64 { return int64(x) }
