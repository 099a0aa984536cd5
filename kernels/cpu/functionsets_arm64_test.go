package cpu

// functionSets are the instruction sets that have functions.
func functionSets() []functionSet {
	set := functionSet{name: "NEON"}
	if vector.functions {
		set.take = func(*vectorLoops) {}
	}
	return []functionSet{set}
}
