// Package rawbytes looks at the memory of Go slices of numbers as bytes, in the machine's order: how data enters and leaves
// a device without a copy of its own.
package rawbytes

import "unsafe"

// Number lists the element types whose every bit pattern is a value. Bool is not among them: a Go bool is 0 or 1.
type Number interface {
	~float32 | ~float64 | ~int64 | ~int32 | ~uint8 | ~uint16 | ~uint64
}

// Of returns the memory of s. It stays valid as long as the slice is used; writing to it changes s.
func Of[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// Int64s is s itself as int64, which int is on the systems of package platform.
func Int64s(s []int) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// Ints is s itself as int.
func Ints(s []int64) []int { return unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(s))), len(s)) }

// Words are what an interface value consists of: its type, and where it points to. Values with equal words are equal as long as one of them is kept; values with other
// words may be equal. To compare them takes a nanosecond, where comparing interfaces calls the runtime.
func Words(v any) (kind, at uintptr) {
	words := (*[2]uintptr)(unsafe.Pointer(&v))
	return words[0], words[1] // one by one, as they were written: both at once would wait for that
}
