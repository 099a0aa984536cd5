package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

// orderRig captures on several streams and asks for the order.
type orderRig struct {
	*cudatest.Rig
	t       *testing.T
	streams []*cuda.Stream
	p       device.Ptr
}

func newOrderRig(t *testing.T, streams int) *orderRig {
	r := &orderRig{Rig: cudatest.New(t, 1), t: t}
	r.p = r.Malloc(r.Devices[0], 100)
	for range streams {
		r.streams = append(r.streams, r.Stream(r.Devices[0]))
		r.work(len(r.streams) - 1) // what is before the capture is of no interest
	}
	require.NoError(t, r.streams[0].BeginCapture())
	return r
}

func (r *orderRig) work(i int) {
	r.t.Helper()
	require.NoError(r.t, r.streams[i].Fill(r.p, 1, 100))
}

// order places what follows on a stream behind what is on another.
func (r *orderRig) order(before, after int) {
	r.t.Helper()
	e := r.Event(r.Devices[0])
	require.NoError(r.t, r.streams[before].Record(e))
	require.NoError(r.t, r.streams[after].Wait(e))
}

func (r *orderRig) end() {
	r.t.Helper()
	g, err := r.streams[0].EndCapture()
	require.NoError(r.t, err)
	require.NoError(r.t, g.Close())
}

// passed asks all streams about a mark.
func (r *orderRig) passed(m device.CaptureMark) (list []bool) {
	for _, s := range r.streams {
		list = append(list, s.CapturePassed(m))
	}
	return list
}

func TestCaptureOrder_FollowsEvents(t *testing.T) {
	r := newOrderRig(t, 4)
	r.work(0)
	start := r.streams[0].CaptureMark()
	r.order(0, 1)
	r.order(0, 2)
	require.Equal(t, []bool{true, true, true, false}, r.passed(start), "stream 3 is no part")
	fresh := r.streams[1].CaptureMark()
	require.Equal(t, []bool{true, true, true, false}, r.passed(fresh), "stream 1 has done nothing since")
	r.work(1)
	one := r.streams[1].CaptureMark()
	require.Equal(t, []bool{false, true, false, false}, r.passed(one))
	r.order(1, 2)
	require.Equal(t, []bool{false, true, true, false}, r.passed(one))
	r.work(1)
	later := r.streams[1].CaptureMark()
	require.Equal(t, []bool{false, true, false, false}, r.passed(later), "the event was recorded before")
	r.work(2)
	two := r.streams[2].CaptureMark()
	require.Equal(t, []bool{false, false, true, false}, r.passed(two), "stream 2 comes after part of stream 1")
	r.order(2, 3)
	require.Equal(t, []bool{false, true, true, true}, r.passed(one), "through stream 2")
	require.Equal(t, []bool{false, false, true, true}, r.passed(two))
	r.order(3, 0)
	require.Equal(t, []bool{true, true, true, true}, r.passed(one))
	require.Equal(t, []bool{true, false, true, true}, r.passed(two))
	require.Equal(t, []bool{false, true, false, false}, r.passed(later))
	r.order(1, 0)
	require.Equal(t, []bool{true, true, false, false}, r.passed(later))
	r.end()
	require.Equal(t, []bool{false, false, false, false}, r.passed(later), "the capture is over")
}

func TestCaptureOrder_EventsStandForWhatWasBeforeThem(t *testing.T) {
	r := newOrderRig(t, 2)
	d := r.Devices[0]
	fork, join := r.Event(d), r.Event(d)
	require.NoError(t, r.streams[0].Record(fork))
	require.NoError(t, r.streams[1].Wait(fork))
	r.work(1)
	require.NoError(t, r.streams[1].Record(join))
	r.work(1)
	m := r.streams[1].CaptureMark()
	require.NoError(t, r.streams[0].Wait(join))
	require.False(t, r.streams[0].CapturePassed(m))
	require.NoError(t, r.streams[1].Record(join), "the same event again")
	require.False(t, r.streams[0].CapturePassed(m))
	require.NoError(t, r.streams[0].Wait(join))
	require.True(t, r.streams[0].CapturePassed(m))
	r.streams[1].Note("cublasGemmEx")
	require.False(t, r.streams[0].CapturePassed(r.streams[1].CaptureMark()), "what libraries enqueue there counts")
	r.order(1, 0)
	r.end()
}

func TestCaptureOrder_OfOneCaptureOnly(t *testing.T) {
	r := newOrderRig(t, 2)
	m := r.streams[0].CaptureMark()
	require.NotNil(t, m)
	require.Nil(t, r.streams[1].CaptureMark())
	require.False(t, r.streams[0].CapturePassed(nil))
	require.False(t, r.streams[0].CapturePassed("mark"))
	r.end()
	require.Nil(t, r.streams[0].CaptureMark())
	require.NoError(t, r.streams[0].BeginCapture())
	require.False(t, r.streams[0].CapturePassed(m), "it is of an earlier capture")
	require.NoError(t, r.streams[1].BeginCapture())
	require.False(t, r.streams[1].CapturePassed(r.streams[0].CaptureMark()), "it is of another capture")
	r.end()
	g, err := r.streams[1].EndCapture()
	require.NoError(t, err)
	require.NoError(t, g.Close())
}
