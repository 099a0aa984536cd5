package cuda_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// walkBLAS makes products of each kind, and again while they fail. It returns how many failed.
func walkBLAS(t *testing.T, d *cuda.Device) (failures int) {
	t.Helper()
	q, err := newSquare(d, maxSquare)
	for ; err != nil; q, err = newSquare(d, maxSquare) {
		failures++
		require.Less(t, failures, 3)
	}
	for _, c := range walkedProducts(q) {
		failures += c.compute(t, q)
	}
	for q.s.Synchronize(context.Background()) != nil {
		failures++
		require.Less(t, failures, 5)
	}
	if q.close() != nil {
		failures++ // closing the device frees it
	}
	return failures
}

// Every call of driver and library fails in turn, with a code of a refusal and with one of a failure. Nothing may be left.
func TestFaults_OfEveryCallOfTheLibraryLoseNothing(t *testing.T) {
	path := fakecuda.Build(t)
	for step, code := range map[int]int{1: 3, 3: 13} {
		driver := fakecuda.Open(t, path)
		total := 1
		for fault := 0; fault <= total; fault += step {
			driver.Reset()
			devices, err := cuda.OpenLibrary(path, cuda.WithCUBLAS(path))
			require.NoError(t, err)
			d, before := devices[0], driver.Total()
			walked := walkFunctions(driver)
			if fault > 0 {
				driver.Fail("*", fault, code)
			}
			failures := walkBLAS(t, d)
			if fault == 0 {
				require.Zero(t, failures)
				total = driver.Total() - before
				require.Greater(t, total, 40)
				require.GreaterOrEqual(t, walkFunctions(driver)-walked, 14, "functions of the library")
			}
			driver.ClearFaults()
			require.NoError(t, d.Close(), "fault %d", fault)
			require.Empty(t, driver.Leaks(), "fault %d of %d", fault, total)
		}
	}
}

// walkFunctions counts the library's functions that were called.
func walkFunctions(l *fakecuda.Library) (n int) {
	for name := range l.Calls() {
		if strings.HasPrefix(name, "cublas") {
			n++
		}
	}
	return n
}

// walked is a product of the walk, and what each element must be.
type walked struct {
	p    *blas.Product
	want float32
}

func walkedProducts(q *square) []walked {
	batch := q.product()
	batch.M, batch.Dims, batch.Shape[0] = 2, 1, maxSquare/2
	for k := range 2 {
		batch.Strides[k][0] = 2 * maxSquare
	}
	return []walked{{q.product(), 240}, {batch, 240}, {q.biased(), 245}}
}

// compute computes it, again if it fails, unless the library will never do it. It returns how often it failed.
func (c *walked) compute(t *testing.T, q *square) (failures int) {
	t.Helper()
	for ; ; failures++ {
		require.Less(t, failures, 3)
		values, done, err := q.multiply(c.p)
		if err == nil && done {
			for _, v := range values {
				require.Equal(t, c.want, v)
			}
			return failures
		}
		if err != nil {
			var of *device.Error
			require.ErrorAs(t, err, &of)
		} else if b := q.d.BLAS(); b.Reason != nil || !b.Lt {
			return failures + 1 // own kernels from now on
		}
	}
}
