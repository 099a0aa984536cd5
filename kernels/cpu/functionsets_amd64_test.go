package cpu

// functionSets are the instruction sets that have functions.
func functionSets() []functionSet {
	sets := []functionSet{{name: "AVX2"}, {name: "AVX-512"}}
	if vector.functions {
		sets[0].take = func(v *vectorLoops) { v.masked, v.expSum = false, expSumAVX2 }
	}
	if vector.masked {
		sets[1].take = func(*vectorLoops) {}
	}
	return sets
}
