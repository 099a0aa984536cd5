package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/memory"
)

const reuseConf = "graph_capture_record_stream_reuse:True"

// use fills a block on a stream and tells the allocator.
func (r *captureRig) use(b memory.Block, s *cuda.Stream) {
	r.t.Helper()
	require.NoError(r.t, errors.Join(s.Fill(b.Ptr(), 1, b.Size()), r.a.RecordStream(b, s)))
}

func (r *captureRig) free(b memory.Block) {
	r.t.Helper()
	require.NoError(r.t, r.a.Free(b))
	require.NoError(r.t, r.a.Check())
}

// captureAndRun captures work on the main stream and replays it once.
func (r *captureRig) captureAndRun(work func(), opts ...memory.CaptureOption) *memory.Graph {
	r.t.Helper()
	g, err := r.a.CaptureGraph(r.main, func() error { work(); return nil }, opts...)
	require.NoError(r.t, err)
	require.NoError(r.t, r.a.Check())
	require.NoError(r.t, errors.Join(g.Replay(r.main), r.dev.Synchronize(context.Background())))
	r.t.Cleanup(func() { require.NoError(r.t, g.Close()) })
	return g
}

// test_graph_capture_reclaim_2_streams: no reuse before the side stream is joined, reuse after.
func TestReuseInCapture_AfterTheJoinOfTheOtherStream(t *testing.T) {
	for _, conf := range []string{"", reuseConf} {
		t.Run(conf, func(t *testing.T) {
			r := newCaptureRig(t, conf)
			r.captureAndRun(func() {
				first := r.take(32, r.main)
				r.order(r.main, r.side)
				r.use(first, r.side)
				r.free(first)
				before := r.take(32, r.main)
				require.NotEqual(t, first.Ptr(), before.Ptr())
				require.EqualValues(t, 2, r.a.Stats().Active.All.Current)
				r.order(r.side, r.main)
				after := r.take(32, r.main)
				require.Equal(t, conf != "", first.Ptr() == after.Ptr())
				r.free(before)
				r.free(after)
			})
		})
	}
}

// test_graph_capture_reclaim_4_streams: joins of some of the streams are not enough.
func TestReuseInCapture_AfterTheJoinOfAllStreams(t *testing.T) {
	r := newCaptureRig(t, reuseConf)
	two, three, four := r.side, r.stream(), r.stream()
	r.captureAndRun(func() {
		first := r.take(32, r.main)
		for _, s := range []*cuda.Stream{two, three, four} {
			r.order(r.main, s)
			r.use(first, s)
		}
		r.free(first)
		r.order(two, r.main)
		r.order(four, three)
		second := r.take(32, r.main)
		require.NotEqual(t, first.Ptr(), second.Ptr(), "three, and four behind it, are not joined")
		other := r.take(32, three)
		r.order(three, r.main)
		r.free(r.take(32, three)) // a request of another stream does not look after the block
		require.EqualValues(t, 3, r.a.Stats().Active.All.Current)
		third := r.take(32, r.main)
		require.Equal(t, first.Ptr(), third.Ptr())
		r.free(second)
		r.free(third)
		r.free(other)
	})
}

// test_graph_capture_reclaim_shared_pool: what was freed in a capture and not joined in time serves the next one.
func TestReuseInCapture_InThePoolOfSeveralGraphs(t *testing.T) {
	r := newCaptureRig(t, reuseConf)
	var first device.Ptr
	work := func() {
		b := r.take(3<<20, r.main)
		first = b.Ptr()
		r.order(r.main, r.side)
		r.use(b, r.side)
		r.free(b)
		r.order(r.side, r.main)
	}
	g := r.captureAndRun(work)
	require.Zero(t, r.a.Stats().Active.All.Current, "freed at the end of the capture")
	reserved, address := r.reserved(), first
	r.captureAndRun(work, memory.CapturePool(g.Pool()))
	require.Equal(t, address, first)
	require.Equal(t, reserved, r.reserved())
	r.captureAndRun(func() { // in the third the block is free twice: joined, and joined again
		for range 2 {
			work()
			require.Equal(t, address, first)
		}
	}, memory.CapturePool(g.Pool()))
	require.Equal(t, reserved, r.reserved())
}

// test_graph_capture_pre_capture_stream_use: what runs before the capture is no part of it, so joins say nothing about it.
func TestReuseInCapture_NotWhileWorkFromBeforeTheCaptureRuns(t *testing.T) {
	for _, sideIsCaptured := range []bool{false, true} {
		t.Run(fmt.Sprint(sideIsCaptured), func(t *testing.T) {
			r := newCaptureRig(t, reuseConf)
			pool := r.a.NewPool()
			b, err := pool.Alloc(32, r.main)
			require.NoError(t, err)
			r.HoldStream(r.side.Handle())
			r.use(b, r.side)
			g, err := r.a.CaptureGraph(r.main, func() error {
				if sideIsCaptured {
					r.order(r.main, r.side)
					r.use(b, r.side)
				}
				r.free(b)
				if sideIsCaptured {
					r.order(r.side, r.main)
				}
				other := r.take(32, r.main)
				require.NotEqual(t, b.Ptr(), other.Ptr())
				r.free(other)
				return nil
			}, memory.CapturePool(pool))
			require.NoError(t, err)
			require.EqualValues(t, 1, r.a.Stats().Active.All.Current, "the capture is over, the work is not")
			r.ReleaseStream(r.side.Handle())
			require.NoError(t, r.side.Synchronize(context.Background()))
			again, err := pool.Alloc(32, r.main)
			require.NoError(t, err)
			require.Equal(t, b.Ptr(), again.Ptr())
			require.NoError(t, errors.Join(r.a.Free(again), r.a.Check(), g.Close(), pool.Close()))
		})
	}
}

func TestReuseInCapture_ABlockOfAnotherStreamComesBackToIt(t *testing.T) {
	r := newCaptureRig(t, reuseConf)
	r.captureAndRun(func() {
		r.order(r.main, r.side)
		b := r.take(32, r.side)
		r.use(b, r.main)
		r.free(b)
		first := r.take(32, r.side)
		require.NotEqual(t, b.Ptr(), first.Ptr(), "main has not been joined to side")
		r.order(r.main, r.side)
		second := r.take(32, r.side)
		require.Equal(t, b.Ptr(), second.Ptr())
		r.free(first)
		r.free(second)
		r.order(r.side, r.main)
	})
}

func TestReuseInCapture_UsesOfAnEndedCaptureHoldNothingBack(t *testing.T) {
	r := newCaptureRig(t, reuseConf)
	var b memory.Block
	g := r.captureAndRun(func() {
		b = r.take(32, r.main)
		r.order(r.main, r.side)
		r.use(b, r.side)
		r.order(r.side, r.main)
	})
	c, err := g.Pool().Checkpoint()
	require.NoError(t, err)
	again, err := g.Pool().Restore(c)
	require.NoError(t, err, "nothing that runs uses the block")
	b = again.Live[0]
	require.NoError(t, r.a.RecordStream(b, r.side))
	_, err = g.Pool().Restore(c)
	require.ErrorIs(t, err, memory.ErrCheckpoint)
	require.NoError(t, errors.Join(r.a.Free(b), r.dev.Synchronize(context.Background())))
	r.free(r.take(32, r.side)) // looks after events
	require.Zero(t, r.a.Stats().Active.All.Current)
}

// Whatever the order in which the graph's branches run, nobody finds another's bytes in reused memory.
func TestReuseInCapture_ResultsAreRightUnderBothSchedules(t *testing.T) {
	for _, greedy := range []bool{false, true} {
		t.Run(fmt.Sprint(greedy), func(t *testing.T) {
			r := newCaptureRig(t, reuseConf)
			r.Greedy(greedy)
			const n, rounds = 64, 8
			out := r.take(n*rounds, r.main)
			reserved := map[device.Ptr]bool{}
			g := r.captureAndRun(func() {
				for i := range rounds {
					b := r.take(n, r.main)
					reserved[b.Ptr()] = true
					require.NoError(t, r.main.Fill(b.Ptr(), byte(i+1), n))
					r.order(r.main, r.side)
					require.NoError(t, r.side.Copy(out.Ptr().Add(uint64(n*i)), b.Ptr(), n))
					require.NoError(t, r.a.RecordStream(b, r.side))
					r.free(b)
					if i%2 == 1 {
						r.order(r.side, r.main)
					}
				}
			})
			require.Len(t, reserved, 2, "at most two blocks wait for the side stream at a time")
			got := make([]byte, n*rounds)
			require.NoError(t, errors.Join(r.main.Fill(out.Ptr(), 0, n*rounds), g.Replay(r.main), r.main.CopyToHost(got, out.Ptr())))
			for i, v := range got {
				require.Equal(t, byte(i/n+1), v)
			}
			r.free(out)
		})
	}
}

// reuseProgram captures operations chosen at random on three streams: blocks are filled on their stream, copied to a place of
// their own on others behind that, and freed. It returns the values that the places must have, and how many addresses
// there were.
func reuseProgram(r *captureRig, random *rand.Rand, out memory.Block) (g *memory.Graph, want []byte, addresses int) {
	const n = 32
	streams := []*cuda.Stream{r.main, r.side, r.stream()}
	type held struct {
		block memory.Block
		owner *cuda.Stream
		value byte
	}
	var live []held
	seen := map[device.Ptr]bool{}
	value := byte(0)
	step := func() {
		s := streams[random.IntN(3)]
		switch op := random.IntN(10); {
		case op < 4 || len(live) == 0:
			value++
			b := r.take(n, s)
			require.NoError(r.t, s.Fill(b.Ptr(), value, n))
			live, seen[b.Ptr()] = append(live, held{b, s, value}), true
		case op < 6:
			h := live[random.IntN(len(live))]
			r.order(h.owner, s)
			require.NoError(r.t, s.Copy(out.Ptr().Add(uint64(len(want)*n)), h.block.Ptr(), n))
			require.NoError(r.t, r.a.RecordStream(h.block, s))
			want = append(want, h.value)
		case op < 9:
			i := random.IntN(len(live))
			r.free(live[i].block)
			live = slices.Delete(live, i, i+1)
		default:
			r.order(s, streams[random.IntN(3)])
		}
	}
	g = r.captureAndRun(func() {
		r.order(r.main, streams[1])
		r.order(r.main, streams[2])
		for range 150 {
			step()
		}
		for _, h := range live {
			r.free(h.block)
		}
		r.order(streams[1], r.main)
		r.order(streams[2], r.main)
	})
	return g, want, len(seen)
}

// requireReplay replays a graph of reuseProgram and looks at what it copied.
func (r *captureRig) requireReplay(g *memory.Graph, out memory.Block, want []byte) {
	r.t.Helper()
	got := make([]byte, len(want)*32)
	require.NoError(r.t, errors.Join(r.main.Fill(out.Ptr(), 0, out.Size()), g.Replay(r.main), r.main.CopyToHost(got, out.Ptr())))
	for k := range got {
		require.Equal(r.t, want[k/32], got[k], "copy %d", k/32)
	}
}

func TestReuseInCapture_RandomProgramsReadWhatTheyWrote(t *testing.T) {
	for seed := range uint64(6) {
		var addresses [2]int
		for i, conf := range []string{"", reuseConf} {
			t.Run(fmt.Sprint(seed, conf), func(t *testing.T) {
				r := newCaptureRig(t, conf)
				out := r.take(150*32, r.main)
				var g *memory.Graph
				var want []byte
				g, want, addresses[i] = reuseProgram(r, rand.New(rand.NewPCG(seed, 7)), out)
				for _, greedy := range []bool{false, true} {
					r.Greedy(greedy)
					r.requireReplay(g, out, want)
				}
				require.EqualValues(t, 1, r.a.Stats().Active.All.Current, "out")
				r.free(out)
			})
		}
		require.Less(t, addresses[1], addresses[0], "memory was used again in the capture")
	}
}
