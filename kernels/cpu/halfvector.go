//go:build amd64 || arm64

package cpu

// halfLanes are the elements of a vector. Elements that are left over, from leastOver on, have a vector in memory of their own.
const (
	halfLanes = 8
	leastOver = 3
)

// The functions below convert as many elements as they can, from the first on, and return how many.

func fromHalfVector(dst []float32, src []uint16) int {
	if !halfLoops {
		return 0
	}
	n := len(dst) &^ (halfLanes - 1)
	if n > 0 {
		fromHalfLoop(n, &dst[0], &src[:n][0])
	}
	if len(dst)-n < leastOver {
		return n
	}
	var from [halfLanes]uint16
	var to [halfLanes]float32
	copy(from[:], src[n:len(dst)])
	fromHalfLoop(halfLanes, &to[0], &from[0])
	return n + copy(dst[n:], to[:])
}

func toHalfVector(dst []uint16, src []float32) int {
	if !halfLoops {
		return 0
	}
	n := len(dst) &^ (halfLanes - 1)
	if n > 0 {
		toHalfLoop(n, &dst[0], &src[:n][0])
	}
	if len(dst)-n < leastOver {
		return n
	}
	var from [halfLanes]float32
	var to [halfLanes]uint16
	copy(from[:], src[n:len(dst)])
	toHalfLoop(halfLanes, &to[0], &from[0])
	return n + copy(dst[n:], to[:])
}

func fromBrainVector(dst []float32, src []uint16) int {
	if !halfLoops {
		return 0
	}
	n := len(dst) &^ (halfLanes - 1)
	if n > 0 {
		fromBrainLoop(n, &dst[0], &src[:n][0])
	}
	if len(dst)-n < leastOver {
		return n
	}
	var from [halfLanes]uint16
	var to [halfLanes]float32
	copy(from[:], src[n:len(dst)])
	fromBrainLoop(halfLanes, &to[0], &from[0])
	return n + copy(dst[n:], to[:])
}

func toBrainVector(dst []uint16, src []float32) int {
	if !halfLoops {
		return 0
	}
	n := len(dst) &^ (halfLanes - 1)
	if n > 0 {
		toBrainLoop(n, &dst[0], &src[:n][0])
	}
	if len(dst)-n < leastOver {
		return n
	}
	var from [halfLanes]float32
	var to [halfLanes]uint16
	copy(from[:], src[n:len(dst)])
	toBrainLoop(halfLanes, &to[0], &from[0])
	return n + copy(dst[n:], to[:])
}
