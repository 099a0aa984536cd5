package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/rawbytes"
)

// square is n by n matrices of float32 on a device, dst = a @ b (+ c), with a workspace.
type square struct {
	d    *cuda.Device
	s    device.Stream
	n    int
	base device.Ptr
	work device.Ptr
}

const (
	workBytes = 16 << 20
	maxSquare = 40
)

func newSquare(d *cuda.Device, n int) (*square, error) {
	base, err := d.Malloc(4 * 4 * maxSquare * maxSquare)
	if err != nil {
		return nil, err
	}
	work, err := d.Malloc(workBytes)
	if err != nil {
		return nil, errors.Join(err, d.Free(base))
	}
	q := &square{d: d, s: d.DefaultStream(), n: n, base: base, work: work}
	for k, value := range []float32{-1, 2, 3, 5} { // dst, a, b, c
		numbers := make([]float32, n*n)
		for i := range numbers {
			numbers[i] = value
		}
		if err := q.s.CopyToDevice(q.at(k), rawbytes.Of(numbers)); err != nil {
			return nil, errors.Join(err, q.close())
		}
	}
	return q, nil
}

func (q *square) at(k int) device.Ptr { return q.base.Add(uint64(k * 4 * maxSquare * maxSquare)) }

func (q *square) close() error { return errors.Join(q.d.Free(q.base), q.d.Free(q.work)) }

func (q *square) product() *blas.Product {
	m := func(k int) blas.Matrix { return blas.Matrix{Ptr: q.at(k), Row: q.n, Column: 1} }
	return &blas.Product{Type: dtype.Float32, M: q.n, N: q.n, K: q.n, Alpha: 1, Dst: m(0), A: m(1), B: m(2)}
}

// biased has a bias instead of a third matrix.
func (q *square) biased() *blas.Product {
	p := q.product()
	p.Beta, p.C = 1, blas.Matrix{Ptr: q.at(3), Column: 1}
	return p
}

// multiply runs a product and returns the elements of dst if the library did it.
func (q *square) multiply(p *blas.Product) (values []float32, done bool, err error) {
	bytes, ok := q.d.MatMulWorkspace(p)
	if !ok {
		return nil, false, nil
	}
	if done, err = q.d.MatMul(q.s, p, q.work, bytes); !done || err != nil {
		return nil, done, err
	}
	values = make([]float32, q.n*q.n)
	return values, true, q.s.CopyToHost(rawbytes.Of(values), q.at(0))
}

func (q *square) require(t *testing.T, p *blas.Product, want float32) {
	t.Helper()
	values, done, err := q.multiply(p)
	require.NoError(t, err)
	require.True(t, done)
	for _, v := range values {
		require.Equal(t, want, v)
	}
}

func TestBLAS_IsLoadedByTheFirstProduct(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	d := r.Devices[0]
	q, err := newSquare(d, 8)
	require.NoError(t, err)
	require.Zero(t, r.Calls()["cublasCreate_v2"])
	q.require(t, q.product(), 48)
	q.require(t, q.biased(), 53)
	require.Equal(t, 1, r.Calls()["cublasCreate_v2"])
	b := d.BLAS()
	require.NoError(t, b.Reason)
	require.Equal(t, 120805, b.Version)
	require.True(t, b.Lt)
	require.EqualValues(t, 2, b.Products)
	require.Zero(t, b.Refusals)
	require.EqualValues(t, 8519680, b.Workspace)
	require.Contains(t, b.String(), "cuBLAS 120805")
	require.Contains(t, b.String(), "2 products, 0 refused")
}

func TestBLAS_SaysWhyThereIsNone(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	q, err := newSquare(d, 8)
	require.NoError(t, err)
	_, done, err := q.multiply(q.product())
	require.NoError(t, err)
	require.False(t, done)
	done, err = d.MatMul(q.s, q.product(), q.work, workBytes)
	require.NoError(t, err)
	require.False(t, done)
	require.ErrorIs(t, d.BLAS().Reason, device.ErrUnavailable)
	require.Contains(t, d.BLAS().String(), "own kernels: cuda:0: cuBLAS: device unavailable (none was given to OpenLibrary)")

	devices, err := cuda.OpenLibrary(fakecuda.Build(t), nil, cuda.WithCUBLAS("/nowhere/libcublas.so.12"))
	require.NoError(t, err)
	defer func() { require.NoError(t, devices[0].Close()) }()
	require.ErrorContains(t, devices[0].BLAS().Reason, "/nowhere/libcublas.so.12")

	devices, err = cuda.OpenLibrary(fakecuda.Build(t), cuda.WithCUBLAS("libc.so.6"))
	require.NoError(t, err)
	defer func() { require.NoError(t, devices[0].Close()) }()
	require.ErrorContains(t, devices[0].BLAS().Reason, "libc.so.6 has no function cublasCreate_v2")
}

func TestBLAS_CanBeTurnedOff(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	d := r.Devices[0]
	q, err := newSquare(d, 8)
	require.NoError(t, err)
	d.UseBLAS(false)
	_, done, err := q.multiply(q.product())
	require.NoError(t, err)
	require.False(t, done)
	require.ErrorContains(t, d.BLAS().Reason, "UseBLAS")
	require.Zero(t, r.Calls()["cublasCreate_v2"])
	d.UseBLAS(true)
	q.require(t, q.product(), 48)
}

func TestBLAS_RoundsToTF32OnlyIfAllowed(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	d := r.Devices[0]
	q, err := newSquare(d, 8)
	require.NoError(t, err)
	third := make([]float32, 64)
	for i := range third {
		third[i] = 1 + 1.0/4096
	}
	require.NoError(t, q.s.CopyToDevice(q.at(1), rawbytes.Of(third)))
	require.False(t, d.AllowTF32())
	q.require(t, q.product(), 24+24.0/4096)
	q.require(t, q.biased(), 29+24.0/4096)
	d.SetAllowTF32(true)
	require.True(t, d.AllowTF32())
	q.require(t, q.product(), 24)
	q.require(t, q.biased(), 29)
}

func TestBLAS_HasTheWorkspaceThatPyTorchHas(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	path := r.Path()
	for value, want := range map[string]uint64{
		"": 8519680, ":4096:2:16:8": 8519680, "-1": 8519680, "nonsense": 8519680, ":4096:8": 32 << 20, ":4096:2": 8 << 20, ":16:8": 128 << 10,
		":0:0": 0, ":8:1000": 8000 << 10,
	} {
		t.Setenv(cuda.WorkspaceVariable, value)
		devices, err := cuda.OpenLibrary(path, cuda.WithCUBLAS(path))
		require.NoError(t, err)
		require.Equal(t, want, devices[0].BLAS().Workspace, value)
		require.NoError(t, devices[0].Close())
	}
	t.Setenv(cuda.WorkspaceVariable, ":99999999999999:1")
	devices, err := cuda.OpenLibrary(path, cuda.WithCUBLAS(path))
	require.NoError(t, err)
	require.ErrorIs(t, devices[0].BLAS().Reason, device.ErrInvalidValue)
	require.NoError(t, devices[0].Close())

	t.Setenv(cuda.WorkspaceVariable, "")
	for compute, want := range map[string]uint64{"80": 8519680, "89": 8519680, "90": 32 << 20, "100": 32 << 20, "120": 32 << 20} {
		r.Reset()
		r.Set("compute", compute)
		devices, err := cuda.OpenLibrary(path, cuda.WithCUBLAS(path))
		require.NoError(t, err)
		require.Equal(t, want, devices[0].BLAS().Workspace, compute)
		require.NoError(t, devices[0].Close())
	}
	r.Devices = nil // they are of before Reset
}

// Plans are kept, and dropped when there are too many: the emulated library tells what is left of them.
func TestBLAS_KeepsPlansWithinLimits(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	q, err := newSquare(r.Devices[0], maxSquare)
	require.NoError(t, err)
	q.require(t, q.biased(), 245)
	made := r.Calls()["cublasLtMatmulDescCreate"]
	q.require(t, q.biased(), 245)
	require.Equal(t, made, r.Calls()["cublasLtMatmulDescCreate"])
	alive := func() int { return strings.Count(strings.Join(r.Leaks(), "\n"), "product descriptor") }
	for m := range 30 {
		for n := range 20 {
			p := q.biased()
			p.M, p.N = m+1, n+1
			_, ok := q.d.MatMulWorkspace(p)
			require.True(t, ok)
			require.LessOrEqual(t, alive(), 512)
		}
	}
	require.Less(t, alive(), 512)
	require.Positive(t, alive())
}

func TestMatMul_OfAnotherDevicesStreamIsRefused(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 2)
	q, err := newSquare(r.Devices[0], 8)
	require.NoError(t, err)
	done, err := r.Devices[0].MatMul(r.Devices[1].DefaultStream(), q.product(), q.work, workBytes)
	require.False(t, done)
	require.ErrorIs(t, err, device.ErrInvalidValue)
}

// Refusals send the product to own kernels and are counted; what may have begun is an error with the library's status.
func TestMatMul_FallsBackOnRefusalsAndReportsFailures(t *testing.T) {
	for _, f := range []string{"cublasGemmEx", "cublasLtMatmul"} {
		for code, sentinel := range map[int]error{1: nil, 3: nil, 7: nil, 8: nil, 15: nil, 11: device.ErrLaunch, 13: device.ErrLaunch, 14: device.ErrLaunch, 99: device.ErrLaunch} {
			t.Run(fmt.Sprint(f, code), func(t *testing.T) {
				r := cudatest.NewCUBLAS(t, 1)
				q, err := newSquare(r.Devices[0], 8)
				require.NoError(t, err)
				p, want := q.product(), float32(48)
				if f == "cublasLtMatmul" {
					p, want = q.biased(), 53
				}
				r.Fail(f, 1, code)
				_, done, err := q.multiply(p)
				require.False(t, done)
				if sentinel == nil {
					require.NoError(t, err)
					require.EqualValues(t, 1, q.d.BLAS().Refusals)
					require.ErrorContains(t, q.d.BLAS().Refusal, f+": CUBLAS_STATUS_")
				} else {
					require.ErrorIs(t, err, sentinel)
					var status cuda.BLASStatus
					require.ErrorAs(t, err, &status)
					require.EqualValues(t, code, status)
					require.ErrorContains(t, err, f+": ")
				}
				q.require(t, p, want)
			})
		}
	}
}

func TestBLAS_IsNotLoadedByACapture(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	d := r.Devices[0]
	q, err := newSquare(d, 8)
	require.NoError(t, err)
	s := r.Stream(d)
	require.NoError(t, s.BeginCapture())
	done, err := d.MatMul(s, q.product(), q.work, workBytes)
	require.NoError(t, err)
	require.False(t, done)
	require.ErrorContains(t, d.BLAS().Reason, "being captured")
	require.Zero(t, r.Calls()["cublasCreate_v2"])
	g, err := s.EndCapture()
	require.NoError(t, err)
	require.NoError(t, g.Close())
	q.require(t, q.product(), 48)
	require.NoError(t, d.BLAS().Reason)
}

func TestMatMul_IsCapturedWithItsWorkspace(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	d := r.Devices[0]
	q, err := newSquare(d, 8)
	require.NoError(t, err)
	s := r.Stream(d)
	q.require(t, q.product(), 48)
	require.NoError(t, s.BeginCapture())
	for _, p := range []*blas.Product{q.product(), q.biased()} {
		done, err := d.MatMul(s, p, q.work, workBytes)
		require.NoError(t, err)
		require.True(t, done)
	}
	g, err := s.EndCapture()
	require.NoError(t, err)
	x, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, q.s.Fill(q.at(0), 0, 4*64))
	require.NoError(t, d.Synchronize(context.Background()))
	for range 3 {
		require.NoError(t, x.Launch(s))
	}
	require.NoError(t, s.Synchronize(context.Background()))
	values := make([]float32, 64)
	require.NoError(t, q.s.CopyToHost(rawbytes.Of(values), q.at(0)))
	require.EqualValues(t, 53, values[63])
	require.False(t, math.IsNaN(float64(values[0])))
	require.NoError(t, errors.Join(x.Close(), g.Close()))
}
