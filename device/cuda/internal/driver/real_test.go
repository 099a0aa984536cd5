package driver

import (
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// realDriver opens the driver library that CISTERN_TEST_LIBCUDA names, without initialising it: it needs no GPU.
func realDriver(t *testing.T) uintptr {
	t.Helper()
	file := os.Getenv("CISTERN_TEST_LIBCUDA")
	if file == "" {
		t.Skip("CISTERN_TEST_LIBCUDA does not name a driver library (Debian: libcuda1, non-free)")
	}
	handle, err := OpenLibrary(file)
	require.NoError(t, err)
	return handle
}

// Also the functions that a driver may lack are in every one of these years.
func TestRealDriver_HasAllFunctions(t *testing.T) {
	handle := realDriver(t)
	for f := Init; f < numFuncs; f++ {
		require.NotZero(t, Symbol(handle, symbols[f]), symbols[f])
	}
}

// The driver's names of results are ours. An older driver has fewer.
func TestRealDriver_HasOurNamesOfResults(t *testing.T) {
	handle := realDriver(t)
	address := Symbol(handle, "cuGetErrorName")
	require.NotZero(t, address)
	known := 0
	for r := range Result(1000) {
		var name string
		result := foreign(func(b *Batch) { b.AddForeign(address, uintptr(r), b.Out(0)) }, func(b *Batch) {
			name = textAt(b.Value(0))
		})
		if result != Success {
			continue // it does not know this one
		}
		known++
		require.Equal(t, name, resultNames[r], "result %d", r)
	}
	require.Greater(t, known, 90)
}

// textAt reads a text of C's.
func textAt(address uint64) (s string) {
	for p := address; p != 0; p++ {
		c := **(**byte)(unsafe.Pointer(&p))
		if c == 0 {
			break
		}
		s += string(rune(c))
	}
	return s
}
