//go:build unix && !linux

package osmem

// noReserve is not needed, or not known, outside Linux: PROT_NONE memory is not accounted for.
const noReserve = 0

func advise(uintptr, uint64) {}
