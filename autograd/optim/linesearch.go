package optim

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// The line search of LBFGS for a step that meets the strong Wolfe conditions (Nocedal and Wright, "Numerical Optimization", 2006, section
// 3.5), with the constants and safeguards of PyTorch's.

const (
	wolfeDecrease = 1e-4 // by what part of the slope's promise the loss must fall
	wolfeSlope    = 0.9  // to what part the slope must fall
	wolfeMost     = 25   // evaluations after the first
)

// point is a point of the line: its distance in directions, the loss, the slope along the direction and the gradient, which it owns.
type point struct {
	t, loss, slope float64
	grad           *tensor.Tensor
}

func (p point) release() {
	if p.grad != nil {
		p.grad.Release()
	}
}

// retained is the point with a gradient of its own.
func (p point) retained() point {
	p.grad = p.grad.Retain()
	return p
}

// wolfe is a search in progress.
type wolfe struct {
	r       *lbfgsRun
	x       *tensor.Tensor // the parameters at 0
	start   point
	size    float64 // the largest element of the direction
	bracket [2]point
	evals   int // after the first
}

// search returns the point that the step goes to. The parameters are where they were.
func (r *lbfgsRun) search(start point) (found point, err error) {
	w := &wolfe{r: r, start: start}
	defer func() {
		w.bracket[0].release()
		w.bracket[1].release()
	}()
	if w.size, err = largest(r.state.d); err != nil {
		return point{}, err
	}
	if w.x, err = r.o.gather(parameterOf); err != nil {
		return point{}, err
	}
	defer w.x.Release()
	done, err := w.widen()
	if err != nil {
		return point{}, err
	}
	if !done {
		if err := w.zoom(); err != nil {
			return point{}, err
		}
	}
	return w.bracket[w.low()].retained(), nil
}

// at is the point at t.
func (w *wolfe) at(t float64) (point, error) {
	if err := w.r.o.move(t, w.r.state.d); err != nil {
		return point{}, err
	}
	p, err := w.r.evaluate()
	if err != nil {
		return point{}, err
	}
	p.t = t
	if p.slope, err = dot(p.grad, w.r.state.d); err == nil {
		err = w.r.o.set(w.x)
	}
	if err != nil {
		p.release()
		return point{}, err
	}
	return p, nil
}

// tooHigh reports whether the loss has not fallen enough.
func (w *wolfe) tooHigh(p point) bool { return p.loss > w.start.loss+wolfeDecrease*p.t*w.start.slope }

// flat reports whether the slope has fallen enough.
func (w *wolfe) flat(p point) bool { return math.Abs(p.slope) <= -wolfeSlope*w.start.slope }

// set gives an end of the bracket a point of its own.
func (w *wolfe) set(end int, p point) {
	p = p.retained()
	w.bracket[end].release()
	w.bracket[end] = p
}

// between makes the bracket, and reports what done says.
func (w *wolfe) between(a, b point, done bool) bool {
	w.set(0, a)
	w.set(1, b)
	return done
}

// low is the end of the bracket with the lower loss.
func (w *wolfe) low() int {
	if w.bracket[0].loss <= w.bracket[1].loss {
		return 0
	}
	return 1
}

// widen takes longer steps until it has a point that is good, which is then both ends of the bracket, or a bracket around one.
func (w *wolfe) widen() (done bool, err error) {
	prev := w.start.retained()
	prev.t = 0
	defer func() { prev.release() }()
	next, err := w.at(w.r.state.t)
	if err != nil {
		return false, err
	}
	defer func() { next.release() }()
	for ; w.evals < wolfeMost; w.evals++ {
		switch {
		case w.tooHigh(next) || w.evals > 1 && next.loss >= prev.loss:
			return w.between(prev, next, false), nil
		case w.flat(next):
			return w.between(next, next, true), nil
		case next.slope >= 0:
			return w.between(prev, next, false), nil
		}
		t := cubicMinimum(prev, next, next.t+0.01*(next.t-prev.t), next.t*10)
		after, err := w.at(t)
		if err != nil {
			return false, err
		}
		prev.release()
		prev, next = next, after
	}
	w.start.t = 0
	return w.between(w.start, next, false), nil
}

// zoom makes the bracket smaller until an end of it is good.
func (w *wolfe) zoom() error {
	stuck := false
	low := w.low()
	for w.evals < wolfeMost {
		a, b := w.bracket[0], w.bracket[1]
		if math.Abs(b.t-a.t)*w.size < w.r.o.settings.ToleranceChange {
			return nil
		}
		t := cubicMinimum(a, b, min(a.t, b.t), max(a.t, b.t))
		t, stuck = inside(t, min(a.t, b.t), max(a.t, b.t), stuck)
		p, err := w.at(t)
		if err != nil {
			return err
		}
		w.evals++
		good := false
		if w.tooHigh(p) || p.loss >= w.bracket[low].loss {
			w.set(1-low, p)
			low = w.low()
		} else {
			good = w.flat(p)
			if !good && p.slope*(w.bracket[1-low].t-w.bracket[low].t) >= 0 {
				w.set(1-low, w.bracket[low])
			}
			w.set(low, p)
		}
		p.release()
		if good {
			return nil
		}
	}
	return nil
}

// inside moves t away from an end of the bracket if it comes too near a second time, and reports whether it came near.
func inside(t, lo, hi float64, stuck bool) (float64, bool) {
	margin := 0.1 * (hi - lo)
	switch {
	case min(hi-t, t-lo) >= margin:
		return t, false
	case !stuck && t < hi && t > lo:
		return t, true
	case math.Abs(t-hi) < math.Abs(t-lo):
		return hi - margin, false
	}
	return lo + margin, false
}

// cubicMinimum is where the cubic with the losses and slopes of two points is least, within limits; their middle if it has no minimum
// (Nocedal and Wright, equation 3.59).
func cubicMinimum(a, b point, lo, hi float64) float64 {
	if a.t > b.t {
		a, b = b, a
	}
	d := a.slope + b.slope - 3*(a.loss-b.loss)/(a.t-b.t)
	square := d*d - a.slope*b.slope
	if !(square >= 0) {
		return (lo + hi) / 2
	}
	root := math.Sqrt(square)
	t := b.t - (b.t-a.t)*((b.slope+root-d)/(b.slope-a.slope+2*root))
	return min(max(t, lo), hi)
}
