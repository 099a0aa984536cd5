package parallel_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/tensor"
)

// Communication is hidden behind backward. The links are slow: a gradient of a layer is on them for as long as backward takes for a layer, by a clock that the test turns. And it really is under way meanwhile: each
// collective waits until backward has come to the next layer, and each layer until the collective of the one before has begun, so that a pass without overlap would never end.

const (
	layersOfPass = 5
	width        = 16
	layerTime    = 10 * time.Millisecond
)

// bytesPerSecond makes the gradients of a layer be on the links for as long as backward takes for one.
var bytesPerSecond = float64(4*width*width) / layerTime.Seconds()

// pace is a rank's time, and what has come to where.
type pace struct {
	mu      sync.Mutex
	moved   *sync.Cond
	compute time.Duration // of backward
	links   time.Duration // when they are free again
	sent    time.Duration // all time on them
	layers  int           // that backward has left
	begun   int           // collectives
	queued  int
	strict  bool // they wait for each other
	late    bool
}

func newPace(strict bool) *pace {
	p := &pace{strict: strict}
	p.moved = sync.NewCond(&p.mu)
	return p
}

var errNoOverlap = errors.New("backward and communication do not overlap")

// until waits for a condition, which a pass without overlap does not come to.
func (p *pace) until(condition func() bool) error {
	timer := time.AfterFunc(limit/3, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.late = true
		p.moved.Broadcast()
	})
	defer timer.Stop()
	for p.strict && !condition() {
		if p.late {
			return errNoOverlap
		}
		p.moved.Wait()
	}
	return nil
}

// layer is the end of a layer's backward pass.
func (p *pace) layer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layers++
	p.moved.Broadcast()
	err := p.until(func() bool { return p.begun >= p.layers })
	p.compute += layerTime
	return err
}

// pacer is a Comm with slow links, for reductions.
func pacer(c comm.Comm, p *pace) comm.Comm {
	return commtest.Hooked{Comm: c, Before: func(s device.Stream, call comm.Call) error {
		if call.Operation != "AllReduce" && call.Operation != "ReduceScatter" {
			return nil
		}
		return p.send(s, call.Src)
	}}
}

// send notes when the links begin and end with it: not before it was enqueued, and not before they have ended with the one before.
func (p *pace) send(s device.Stream, src comm.Buffer) error {
	p.mu.Lock()
	took := time.Duration(float64(src.Bytes()) / bytesPerSecond * float64(time.Second))
	p.sent += took
	p.links = max(p.links, p.compute) + took
	p.queued++
	number := p.queued
	p.mu.Unlock()
	return s.(device.Executor).Submit("slow links", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		err := p.until(func() bool { return p.layers >= min(number, layersOfPass-1) })
		p.begun++
		p.moved.Broadcast()
		return err
	})
}

// between is what is between two layers: backward comes through it when it has finished the gradients of the later one.
var between = autograd.Function[*pace]{
	Name:    "between",
	Forward: func(_ *autograd.Context, _ *pace, in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Clone() },
	Backward: func(_ *autograd.Context, p *pace, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		if err := p.layer(); err != nil {
			return nil, err
		}
		t, err := grad.Clone()
		return []*tensor.Tensor{t}, err
	},
}

// paced is the time of a backward pass with what it sends, by the clock, and of both alone.
func paced(t *testing.T, stage int, buckets int, strict bool) (step, compute, sent time.Duration) {
	t.Helper()
	all := ranks(t, 2)
	paces := []*pace{newPace(false), newPace(false)}
	for i, err := range together(all, func(r *rank) error {
		p := paces[r.comm.Rank()]
		r.comm = pacer(r.comm, p)
		layers := make([]nn.Layer, layersOfPass)
		for i := range layers {
			layers[i] = nn.Linear(width, width, nn.NoBias())
		}
		model := nn.Sequential(layers...)
		return withModel(r, model, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(buckets, buckets)}, func(d *parallel.DataParallel) error {
			for _, last := range []bool{false, true} { // the first pass learns the order
				p.mu.Lock()
				p.compute, p.links, p.sent, p.layers, p.begun, p.queued, p.strict = 0, 0, 0, 0, 0, 0, strict && last
				p.mu.Unlock()
				g, x := r.graph(2, width)
				v := d.Run(g, func() *autograd.Variable {
					v := x
					for i, l := range layers {
						if i > 0 {
							v = between.Apply(p, v)
						}
						v = l.Forward(v)
					}
					return v
				})
				err := v.Square().Mean(nil, false).Backward()
				g.Release()
				if err != nil {
					return err
				}
				d.ZeroGrad()
			}
			return nil
		})
	}) {
		require.NoError(t, err, "rank %d", i)
	}
	p := paces[0]
	require.False(t, p.late || paces[1].late, errNoOverlap)
	return max(p.compute, p.links), p.compute, p.sent
}

func TestOverlap_CommunicationIsHiddenBehindBackward(t *testing.T) {
	for stage := range 3 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			step, compute, sent := paced(t, stage, 1, true)
			require.Equal(t, (layersOfPass-1)*layerTime, compute)
			require.Equal(t, layersOfPass*layerTime, sent)
			require.Equal(t, layersOfPass*layerTime, step, "backward, and what the layer that comes last sends")
			require.Less(t, step, (compute+sent)*6/10)

			step, compute, sent = paced(t, stage, 1<<20, false)
			require.Equal(t, compute+sent, step, "with all gradients in one bucket nothing is hidden: the clock sees it")
		})
	}
}
