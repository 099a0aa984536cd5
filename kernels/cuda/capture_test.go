package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	devicecuda "github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Graphs of kernels and of the library's products. Each test runs on the emulated driver, and on a GPU under a name of TestGPU.

// recorder captures calls on a stream of its own.
type recorder struct {
	memory
	d *devicecuda.Device
	s *devicecuda.Stream
}

func newRecorder(t *testing.T, d *devicecuda.Device) *recorder {
	t.Helper()
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &recorder{memory: memory{t, d}, d: d, s: s.(*devicecuda.Stream)}
}

// call makes a call on the recorder's stream, with the workspace that it wants.
func (r *recorder) call(id op.ID, out, in []op.View, set ...func(*op.Call)) op.Call {
	r.t.Helper()
	c := op.Call{Op: id, Stream: r.s, Out: out, In: in}
	for _, f := range set {
		f(&c)
	}
	require.NoError(r.t, op.Check(&c))
	if n := kernels.Workspace(&c); n > 0 {
		c.Work = r.put(dtype.Uint8, make([]float64, n), []int{int(n)})
	}
	return c
}

func scalars(f ...float64) func(*op.Call) { return func(c *op.Call) { copy(c.F[:], f) } }
func integers(i ...int64) func(*op.Call)  { return func(c *op.Call) { copy(c.I[:], i) } }

// zeros is a tensor of zeros.
func (r *recorder) zeros(d dtype.DType, shape ...int) op.View {
	r.t.Helper()
	n := 1
	for _, size := range shape {
		n *= size
	}
	return r.put(d, make([]float64, n), shape)
}

func launchAll(calls []op.Call) error {
	for i := range calls {
		if err := kernels.Launch(&calls[i]); err != nil {
			return err
		}
	}
	return nil
}

// record captures calls.
func (r *recorder) record(calls ...op.Call) device.GraphExec {
	r.t.Helper()
	require.NoError(r.t, r.d.Synchronize(context.Background()))
	require.NoError(r.t, r.s.BeginCapture())
	launched := launchAll(calls)
	g, err := r.s.EndCapture()
	require.NoError(r.t, errors.Join(launched, err))
	exec, err := g.Instantiate()
	require.NoError(r.t, errors.Join(err, g.Close()))
	r.t.Cleanup(func() { require.NoError(r.t, exec.Close()) })
	return exec
}

// eager runs calls now, and waits for them.
func (r *recorder) eager(calls ...op.Call) error {
	return errors.Join(launchAll(calls), r.s.Synchronize(context.Background()))
}

// replay runs what was captured, and waits for it.
func (r *recorder) replay(exec device.GraphExec) error {
	return errors.Join(exec.Launch(r.s), r.s.Synchronize(context.Background()))
}

// set writes values into a contiguous tensor.
func (r *recorder) set(v op.View, values []float64) {
	r.t.Helper()
	require.NoError(r.t, r.s.CopyToDevice(v.Ptr, encode(v.DType, values)))
	require.NoError(r.t, r.s.Synchronize(context.Background()))
}

// results are the bytes of all outputs, which it then sets to zero.
func (r *recorder) results(calls ...op.Call) (all [][]byte) {
	r.t.Helper()
	for _, c := range calls {
		for _, v := range c.Out {
			b := make([]byte, v.Len()*v.DType.Size())
			require.NoError(r.t, r.s.CopyToHost(b, v.Ptr))
			all = append(all, b)
			require.NoError(r.t, r.s.Fill(v.Ptr, 0, uint64(len(b))))
		}
	}
	require.NoError(r.t, r.s.Synchronize(context.Background()))
	return all
}

// valuesOf are n small numbers, others for each round.
func valuesOf(round, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64((i*7+round*13)%23-11) / 4
	}
	return v
}

// repeats replays calls that read x three times, with other contents each, and wants what the calls give that are run now.
func (r *recorder) repeats(exec device.GraphExec, x []op.View, calls ...op.Call) {
	r.t.Helper()
	r.results(calls...)
	for round := range 3 {
		for i := range x {
			r.set(x[i], valuesOf(round+i, x[i].Len()))
		}
		require.NoError(r.t, r.replay(exec))
		got := r.results(calls...)
		require.NoError(r.t, r.eager(calls...))
		want := r.results(calls...)
		for i := range want {
			require.Equal(r.t, want[i], got[i], "round %d, output %d of %s", round, i, calls[0].Op)
		}
		require.True(r.t, slices.ContainsFunc(want[0], func(b byte) bool { return b != 0 }), "nothing was computed")
	}
}

// loadInCapture captures kernels of which none was loaded before: of each family of ways to load and launch one.
func loadInCapture(t *testing.T, d *devicecuda.Device) {
	require.NoError(t, cuda.Unload(d))
	r := newRecorder(t, d)
	x, h := r.zeros(dtype.Float32, 48, 64), r.zeros(dtype.Float16, 64, 64)
	picks := r.put(dtype.Int64, []float64{5, 0, 47, 5}, []int{4})
	long := r.zeros(dtype.Float32, 30_000)
	calls := []op.Call{
		r.call(op.Add, []op.View{r.zeros(dtype.Float32, 48, 64)}, []op.View{x, x}, scalars(1), integers(1)),
		r.call(op.IndexSelect, []op.View{r.zeros(dtype.Float32, 4, 64)}, []op.View{x, picks}), // wants the device's note too
		r.call(op.MatMul, []op.View{r.zeros(dtype.Float16, 64, 64)}, []op.View{h, h}, scalars(1)),
		r.call(op.Sum, []op.View{r.zeros(dtype.Float32, 1)}, []op.View{long}), // two kernels and a workspace
		r.call(op.Softmax, []op.View{r.zeros(dtype.Float32, 48, 64)}, []op.View{x}),
	}
	r.repeats(r.record(calls...), []op.View{x, h, long}, calls...)
}

func TestCapture_LoadsKernelsThatItIsTheFirstToMeet(t *testing.T) {
	_, rig := onPTX(t)
	loadInCapture(t, rig.Devices[0])
}

func TestGPU_CaptureLoadsKernelsThatItIsTheFirstToMeet(t *testing.T) { loadInCapture(t, gpu(t, false)) }

// products are calls for each function of the library, in shapes that are another's for each seed.
func (r *recorder) products(seed int) (x []op.View, calls []op.Call) {
	r.t.Helper()
	m, k, n := 40+8*seed, 64, 24+8*seed
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		a, b, bias := r.zeros(d, m, k), r.zeros(d, k, n), r.zeros(d, n)
		rows := bias
		rows.NDim, rows.Shape, rows.Strides = 2, [op.MaxDims]int{m, n}, [op.MaxDims]int{0, 1}
		pack, other := r.zeros(d, 5, m, k), r.zeros(d, 5, k, n)
		x = append(x, a, b, bias, pack, other)
		calls = append(calls,
			r.call(op.MatMul, []op.View{r.zeros(d, m, n)}, []op.View{a, b}, scalars(1)),
			r.call(op.MatMul, []op.View{r.zeros(d, 5, m, n)}, []op.View{pack, other}, scalars(1)),
			r.call(op.MatMul, []op.View{r.zeros(d, m, n)}, []op.View{a, b, rows}, scalars(1, 1)),
			r.call(op.MatMulAct, []op.View{r.zeros(d, m, n)}, []op.View{a, b, rows}, scalars(1, 1), integers(op.ActGELUTanh)),
			r.call(op.MatMulAct, []op.View{r.zeros(d, m, n)}, []op.View{a, b, rows}, scalars(1, 1), integers(op.ActReLU)),
		)
	}
	return x, calls
}

// libraryInCapture captures products of the library: those that it has computed before, and those that it meets in the capture.
func libraryInCapture(t *testing.T, d *devicecuda.Device) {
	r := newRecorder(t, d)
	_, warm := r.products(0)
	require.NoError(t, r.eager(warm...))
	require.Positive(t, d.BLAS().Products)
	for _, seed := range []int{0, 1} {
		x, calls := r.products(seed)
		before := d.BLAS().Products
		exec := r.record(calls...)
		after := d.BLAS()
		require.EqualValues(t, len(calls), after.Products-before, "%v", after)
		r.repeats(exec, x, calls...)
	}
}

// libraryOnPTX is a device of the emulated driver that runs PTX and has the emulated cuBLAS.
func libraryOnPTX(t *testing.T) (*devicecuda.Device, *cudatest.Rig) {
	t.Helper()
	rig := cudatest.NewCUBLAS(t, 1, func(l *fakecuda.Library) { l.Set("ptx", "1") })
	d := rig.Devices[0]
	t.Cleanup(func() {
		rig.ClearFaults()
		require.NoError(t, cuda.Unload(d))
	})
	return d, rig
}

func TestCapture_OfTheLibrarysProductsRepeatsThem(t *testing.T) {
	d, _ := libraryOnPTX(t)
	libraryInCapture(t, d)
}

func TestGPU_CaptureOfTheLibrarysProductsRepeatsThem(t *testing.T) {
	libraryInCapture(t, gpuWithCUBLAS(t))
}

// firstProductInCapture captures the first product of a process. The library cannot be loaded then, so own kernels compute it, also
// when the library is there later.
func firstProductInCapture(t *testing.T, d *devicecuda.Device) {
	r := newRecorder(t, d)
	a, b := r.zeros(dtype.Float16, 64, 64), r.zeros(dtype.Float16, 64, 64)
	call := op.Call{Op: op.MatMul, Stream: r.s, Out: []op.View{r.zeros(dtype.Float16, 64, 64)}, In: []op.View{a, b}, F: [8]float64{1}}
	exec := r.record(call)
	r.set(a, valuesOf(1, 64*64))
	r.set(b, valuesOf(2, 64*64))
	require.NoError(t, r.replay(exec))
	captured := r.results(call)
	library := d.BLAS() // loads it
	t.Log(library)
	require.Zero(t, library.Products, "own kernels computed it")
	if library.Reason != nil {
		return // there is none on this machine: the emulated driver's test wants it
	}
	eager := r.call(op.MatMul, call.Out, call.In, scalars(1))
	require.NoError(t, r.eager(eager))
	require.EqualValues(t, 1, d.BLAS().Products)
	require.Equal(t, r.results(call), captured, "sums of these numbers are exact, whoever forms them")
	r.repeats(exec, []op.View{a, b}, eager)
}

func TestCapture_OfTheFirstProductTakesOwnKernels(t *testing.T) {
	d, _ := libraryOnPTX(t)
	firstProductInCapture(t, d)
	require.Positive(t, d.BLAS().Products)
}

// freshVariable says that the process was started to be one in which nothing was multiplied.
const freshVariable = "CISTERN_TEST_FRESH_PROCESS"

func TestGPU_CaptureOfTheFirstProductTakesOwnKernels(t *testing.T) {
	d := cudatest.GPU(t)
	if os.Getenv(freshVariable) == "" {
		self, err := os.Executable()
		require.NoError(t, err)
		command := exec.Command(self, "-test.run", "^"+t.Name()+"$")
		command.Env = append(os.Environ(), freshVariable+"=1")
		text, err := command.CombinedOutput()
		require.NoError(t, err, string(text))
		require.NotContains(t, string(text), "no tests to run")
		return
	}
	t.Cleanup(func() { require.NoError(t, cuda.Unload(d)) })
	firstProductInCapture(t, d)
}

// lookup is a call with indices, those that are right, and those of which one, wrong, is not right.
type lookup struct {
	call      op.Call
	index     op.View
	good, bad []float64
	wrong     int64
}

// lookups are calls of all operations that check indices.
func (r *recorder) lookups() []lookup {
	r.t.Helper()
	f := func(shape ...int) op.View {
		n := 1
		for _, size := range shape {
			n *= size
		}
		return r.put(dtype.Float32, valuesOf(len(shape), n), shape)
	}
	z := func(shape ...int) op.View { return r.zeros(dtype.Float32, shape...) }
	var list []lookup
	add := func(id op.ID, out []op.View, in []op.View, at int, wrong int64, set ...func(*op.Call)) {
		v := in[at]
		good := make([]float64, v.Len())
		for i := range good {
			good[i] = float64(i * 3 % 5)
		}
		bad := slices.Clone(good)
		bad[len(bad)/2] = float64(wrong)
		r.set(v, good)
		list = append(list, lookup{call: r.call(id, out, in, set...), index: v, good: good, bad: bad, wrong: wrong})
	}
	i := func(shape ...int) op.View { return r.zeros(dtype.Int64, shape...) }
	add(op.IndexSelect, []op.View{z(7, 3)}, []op.View{f(5, 3), i(7)}, 1, 5)
	add(op.IndexSelect, []op.View{z(7, 8)}, []op.View{f(5, 8), i(7)}, 1, -1) // by vectors
	add(op.Gather, []op.View{z(7, 3)}, []op.View{f(5, 3), i(7, 3)}, 1, 1<<40)
	add(op.IndexAdd, []op.View{z(5, 3)}, []op.View{f(7, 3), i(7)}, 1, -2)
	add(op.Scatter, []op.View{z(5, 3)}, []op.View{f(7, 3), i(7, 3)}, 1, 9)           // short lines
	add(op.ScatterAdd, []op.View{z(5, 3)}, []op.View{f(40, 3), i(40, 3)}, 1, -1<<40) // sorted
	add(op.NLL, []op.View{z(7)}, []op.View{f(7, 5), i(7)}, 1, 5, integers(-100))
	add(op.NLLGrad, []op.View{z(7, 5)}, []op.View{f(7), i(7)}, 1, 77, integers(-100))
	add(op.CrossEntropy, []op.View{z(7), z(2, 7), z(7)}, []op.View{f(7, 5), i(7)}, 1, -7, integers(-100))
	add(op.CrossEntropyGrad, []op.View{z(7, 5)}, []op.View{f(7), f(7, 5), i(7), f(2, 7)}, 2, 6, integers(-100))
	bags := r.put(dtype.Int64, []float64{0, 3}, []int{2})
	add(op.EmbeddingBag, []op.View{z(2, 3)}, []op.View{f(5, 3), i(7), bags}, 1, 8, integers(0, -1))
	add(op.EmbeddingBagGrad, []op.View{z(5, 3)}, []op.View{f(2, 3), i(7), bags}, 1, -3, integers(0, -1))
	return list
}

// badIndices looks indices up that are not there: run now, and by the replays of a graph. The error comes with the next wait, once,
// says which operation and index it was, and the device goes on.
func badIndices(t *testing.T, d *devicecuda.Device) {
	require.NoError(t, cuda.Unload(d))
	r := newRecorder(t, d)
	for n, l := range r.lookups() {
		t.Run(fmt.Sprint(l.call.Op, n), func(t *testing.T) {
			exec := r.record(l.call) // of the first one, the note as well is made in the capture
			for _, run := range []func() error{func() error { return r.replay(exec) }, func() error { return r.eager(l.call) }} {
				r.results(l.call)
				r.set(l.index, l.good)
				require.NoError(t, run())
				want := r.results(l.call)
				for range 2 {
					r.set(l.index, l.bad)
					r.requireBadIndex(t, &l, run())
					require.NoError(t, r.s.Synchronize(context.Background()), "it is told once")
					require.NoError(t, d.Synchronize(context.Background()))
					r.results(l.call)
					r.set(l.index, l.good)
					require.NoError(t, run())
					require.Equal(t, want, r.results(l.call), "what is run next is right")
				}
			}
			r.set(l.index, l.bad)
			require.NoError(t, errors.Join(exec.Launch(r.s), exec.Launch(r.s), launchAll([]op.Call{l.call})))
			r.requireBadIndex(t, &l, r.s.Synchronize(context.Background()))
			require.NoError(t, r.s.Synchronize(context.Background()), "three at a time are one error")
		})
	}
}

func (r *recorder) requireBadIndex(t *testing.T, l *lookup, err error) {
	t.Helper()
	require.ErrorIs(t, err, op.ErrIndex)
	require.ErrorContains(t, err, l.call.Op.String())
	require.ErrorContains(t, err, fmt.Sprintf(" %d at ", l.wrong))
}

func TestCapture_ReplaysTellOfBadIndices(t *testing.T) {
	everyway(t, func(t *testing.T, _ device.Device, rig *cudatest.Rig) { badIndices(t, rig.Devices[0]) })
}

func TestGPU_BadIndicesAreToldOnceAndHarmNothing(t *testing.T) { badIndices(t, gpu(t, false)) }
