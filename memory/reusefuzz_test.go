package memory

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// drawnCapture is a graph capture that only remembers what comes after what: node i comes after the nodes after[i].
type drawnCapture struct {
	id    uint64
	after [][]int
}

// before reports whether a node is among nodes, or before one of them: a search, where package device/cuda counts.
func (c *drawnCapture) before(node int, nodes []int) bool {
	return slices.Contains(nodes, node) ||
		slices.ContainsFunc(nodes, func(n int) bool { return c.before(node, c.after[n]) })
}

// drawnStream is a stream of the simulated device that can be captured.
type drawnStream struct {
	device.Stream
	capture *drawnCapture
	ends    []int // nodes after which the next one comes
}

func (s *drawnStream) BeginCapture() error               { return nil }
func (s *drawnStream) EndCapture() (device.Graph, error) { return nil, nil }

func (s *drawnStream) CaptureID() uint64 {
	if s.capture == nil {
		return 0
	}
	return s.capture.id
}

func (s *drawnStream) CaptureMark() device.CaptureMark {
	if s.capture == nil {
		return nil
	}
	return slices.Clone(s.ends)
}

func (s *drawnStream) CapturePassed(m device.CaptureMark) bool {
	return s.capture != nil && !slices.ContainsFunc(m.([]int), func(n int) bool { return !s.capture.before(n, s.ends) })
}

// drawnDriver tells the allocator whether a capture goes on.
type drawnDriver struct {
	*sim.Device
	capturing *bool
}

func (d drawnDriver) Capturing() bool { return *d.capturing }

// pastUse is work that used memory.
type pastUse struct {
	from, to device.Ptr
	capture  *drawnCapture // of which it is a node, or nil: then it is at a position on a stream
	node     int
	stream   int
	position uint64
}

// reuseFuzzer runs operations decoded from bytes on an allocator with captures, and knows of every use of every address. Memory
// that is handed out must be behind all of them.
type reuseFuzzer struct {
	*rig
	capturing bool
	capture   *drawnCapture // that goes on, or nil
	captures  uint64
	pool      *Pool
	streams   [3]*drawnStream
	put, done [3]uint64 // work that runs
	live      []Block
	past      []pastUse
	reused    int // blocks given out in the capture in which others used them
}

func newReuseFuzzer(t testing.TB) *reuseFuzzer {
	z := &reuseFuzzer{}
	z.rig = buildRig(t, 4*gib, reuseText, func(d *sim.Device) Driver { return drawnDriver{d, &z.capturing} })
	for i := range z.streams {
		z.streams[i] = &drawnStream{Stream: z.rig.stream(i)}
	}
	z.pool = z.a.NewPool()
	return z
}

const reuseText = "graph_capture_record_stream_reuse:True"

func (z *reuseFuzzer) step(op, x, y byte) {
	z.t.Helper()
	s, i := int(y%3), len(z.live)-1-int(x)%min(len(z.live)+1, 5) // of the newest blocks, mostly of one capture
	switch {
	case op < 70:
		z.take(s, fuzzSize(x%4, y/3%8))
	case op < 120 && i >= 0:
		z.work(z.live[i], s)
	case op < 170 && i >= 0:
		b := z.live[i]
		z.live = slices.Delete(z.live, i, i+1)
		require.NoError(z.t, z.a.Free(b))
	case op < 210:
		z.order(int(x%3), s)
	case op < 226:
		z.begin()
	case op < 230:
		z.end()
	case op < 244:
		z.done[s] = z.put[s]
		z.complete(s)
	case op < 248 && z.capture == nil:
		for i := range z.streams { // the driver waits for them before it takes memory back
			z.done[i] = z.put[i]
			z.complete(i)
		}
		require.NoError(z.t, z.a.EmptyCache())
	default:
		z.conf([]string{reuseText, "", expandable + "," + reuseText}[x%3])
	}
	z.check()
}

// take allocates, and holds the block against all that has used its addresses.
func (z *reuseFuzzer) take(s int, bytes uint64) {
	z.t.Helper()
	b, err := z.a.Alloc(bytes, z.streams[s])
	require.NoError(z.t, err)
	z.past = slices.DeleteFunc(z.past, func(u pastUse) bool {
		if u.to <= b.Ptr() || b.Ptr().Add(b.Size()) <= u.from {
			return false
		}
		switch {
		case u.capture == nil:
			require.True(z.t, u.stream == s || u.position <= z.done[u.stream], "stream %d still runs what it was given at %d", u.stream, u.position)
		case u.capture == z.capture:
			in := z.streams[s].capture == z.capture
			require.True(z.t, in && z.capture.before(u.node, z.streams[s].ends), "node %d does not come before what follows on stream %d", u.node, s)
			if u.stream != s {
				z.reused++
			}
		}
		return true
	})
	z.live = append(z.live, b)
}

// work lets a stream use a block.
func (z *reuseFuzzer) work(b Block, i int) {
	z.t.Helper()
	s, u := z.streams[i], pastUse{from: b.Ptr(), to: b.Ptr().Add(b.Size()), stream: i}
	if s.capture != nil {
		u.capture, u.node = s.capture, len(s.capture.after)
		s.capture.after = append(s.capture.after, s.ends)
		s.ends = []int{u.node}
	} else {
		require.NoError(z.t, s.Stream.(device.Executor).Submit("work", nil))
		z.put[i]++
		u.position = z.put[i]
	}
	z.past = append(z.past, u)
	require.NoError(z.t, z.a.RecordStream(b, s))
}

// order places what follows on a stream behind what is on another, if both are or come to be in the capture.
func (z *reuseFuzzer) order(before, after int) {
	x, y := z.streams[before], z.streams[after]
	if x.capture == nil || before == after {
		return
	}
	y.capture = x.capture
	for _, n := range x.ends {
		if !slices.Contains(y.ends, n) {
			y.ends = append(y.ends, n)
		}
	}
}

func (z *reuseFuzzer) begin() {
	if z.capture != nil {
		return
	}
	z.captures++
	z.capture, z.capturing = &drawnCapture{id: z.captures}, true
	z.streams[0].capture = z.capture
	require.NoError(z.t, z.a.BeginRoute(z.pool, func(s device.Stream) bool { return s.(*drawnStream).capture == z.capture }))
}

func (z *reuseFuzzer) end() {
	if z.capture == nil {
		return
	}
	for _, s := range z.streams {
		s.capture, s.ends = nil, nil
	}
	z.capture, z.capturing = nil, false
	require.NoError(z.t, z.a.EndRoute(z.pool))
	z.a.pollEvents(nil)
}

// finish frees everything; then nothing may be held back.
func (z *reuseFuzzer) finish() {
	z.t.Helper()
	z.end()
	for _, b := range z.live {
		require.NoError(z.t, z.a.Free(b))
	}
	for i := range z.streams {
		z.complete(i)
	}
	require.NoError(z.t, errors.Join(z.a.EmptyCache(), z.pool.Close()))
	z.check()
	require.Zero(z.t, z.a.Stats().Active.All.Current)
	require.Zero(z.t, z.reserved())
}

func reuseProgramOf(t testing.TB, ops []byte) int {
	z := newReuseFuzzer(t)
	for ; len(ops) >= 3; ops = ops[3:] {
		z.step(ops[0], ops[1], ops[2])
	}
	z.finish()
	return z.reused
}

// Each three bytes are one operation, see reuseFuzzer.step.
func FuzzReuseInCapture(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 900))
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) <= 3000 {
			reuseProgramOf(t, ops)
		}
	})
}

func TestReuseInCapture_HappensInRandomPrograms(t *testing.T) {
	reused := 0
	for seed := range uint64(24) {
		reused += reuseProgramOf(t, randomBytes(seed, 900))
	}
	require.Greater(t, reused, 20)
}
