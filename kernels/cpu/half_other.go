//go:build !amd64 && !arm64

package cpu

// Processors without vector conversions leave all elements to the loops of half.go.

func fromHalfVector([]float32, []uint16) int  { return 0 }
func toHalfVector([]uint16, []float32) int    { return 0 }
func fromBrainVector([]float32, []uint16) int { return 0 }
func toBrainVector([]uint16, []float32) int   { return 0 }
