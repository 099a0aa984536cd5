package optim

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/oneline"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// Closure computes the loss at the parameters' present values and their gradients: it calls ZeroGrad, the model, Backward, and returns the
// loss. LBFGS calls it several times in a step.
type Closure func() (loss float64, err error)

// LBFGSOptimizer is the optimizer that LBFGS makes. It is for one goroutine at a time.
type LBFGSOptimizer struct {
	params   []*autograd.Parameter
	settings Settings
	initial  *float64 // the learning rate that schedules start from, once there is one
	closure  Closure
	state    lbfgsState
	err      error
}

var (
	_ Optimizer = (*LBFGSOptimizer)(nil)
	_ Rated     = (*LBFGSOptimizer)(nil)
)

// LBFGS is torch.optim.LBFGS: a quasi-Newton method for losses that are the same at every call, so for all the data and not for batches
// (Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", 1989). Options: LR (1), MaxIter, MaxEval,
// ToleranceGrad, ToleranceChange, HistorySize, StrongWolfe. Parameters are in one group, of one type and on one device.
//
// A step needs the loss several times: StepClosure takes the function that computes it, or SetClosure before Step. It keeps 2*HistorySize+2
// vectors of the size of all parameters together, takes some ten more while it steps, and waits for the device often.
func LBFGS(params []*autograd.Parameter, opts ...Option) *LBFGSOptimizer {
	o := &LBFGSOptimizer{params: append([]*autograd.Parameter(nil), params...),
		settings: Settings{LR: 1, MaxIter: 20, ToleranceGrad: 1e-7, ToleranceChange: 1e-9, HistorySize: 100}}
	for _, opt := range opts {
		if opt == nil {
			continue
		}
		if name := foreign(lbfgsFields, opt); name != "" || capturing(opt) {
			o.fail("it has no option %s", orCapturable(name))
		}
		opt(&o.settings)
	}
	if o.settings.MaxEval == 0 {
		o.settings.MaxEval = o.settings.MaxIter * 5 / 4
	}
	if err := checkLBFGS(&o.settings); err != nil && o.err == nil {
		o.err = err
	}
	seen := map[*autograd.Parameter]bool{}
	for i, p := range params {
		if p == nil {
			o.fail("parameter %d of group 0 is nil", i)
			continue
		}
		if err := p.Err(); err != nil && o.err == nil {
			o.err = fmt.Errorf("optim: LBFGS: %w", err)
		}
		if seen[p] {
			o.fail("parameter %q is given twice", excerpt.Of(p.Name()))
		}
		seen[p] = true
	}
	return o
}

// capturing reports whether an option is Capturable, which those with fixed numbers of launches have.
func capturing(opt Option) bool {
	var s Settings
	opt(&s)
	return s.Capturable
}

func orCapturable(name string) string {
	if name == "" {
		return "Capturable"
	}
	return name
}

func lbfgsFields(s *Settings) []field {
	return []field{
		number("lr", &s.LR), whole("max_iter", &s.MaxIter), whole("max_eval", &s.MaxEval), number("tolerance_grad", &s.ToleranceGrad),
		number("tolerance_change", &s.ToleranceChange), whole("history_size", &s.HistorySize), truth("strong_wolfe", &s.StrongWolfe),
	}
}

func checkLBFGS(s *Settings) error {
	if err := s.check("LBFGS"); err != nil {
		return err
	}
	if !countable(s.ToleranceGrad) || !countable(s.ToleranceChange) {
		return &ConfigError{"LBFGS", fmt.Sprintf("tolerances %v and %v; they must be finite and not negative", s.ToleranceGrad, s.ToleranceChange)}
	}
	if s.MaxIter < 1 || s.MaxEval < 1 || s.HistorySize < 1 {
		return &ConfigError{"LBFGS", fmt.Sprintf("at most %d iterations, %d evaluations and %d vectors of history; want at least 1",
			s.MaxIter, s.MaxEval, s.HistorySize)}
	}
	return nil
}

func (o *LBFGSOptimizer) fail(format string, args ...any) {
	if o != nil && o.err == nil {
		o.err = &ConfigError{"LBFGS", fmt.Sprintf(format, args...)}
	}
}

// Err returns what is wrong with the settings, if anything.
func (o *LBFGSOptimizer) Err() error {
	if o == nil || o.settings == (Settings{}) {
		return unmade("LBFGSOptimizer")
	}
	return o.err
}

// SetClosure sets what Step calls.
func (o *LBFGSOptimizer) SetClosure(closure Closure) {
	if o != nil {
		o.closure = closure
	}
}

// Step is StepClosure with the function of SetClosure. Without one it is a *ConfigError.
func (o *LBFGSOptimizer) Step() error {
	if o == nil {
		return o.Err()
	}
	_, err := o.StepClosure(o.closure)
	return err
}

// StepClosure takes up to MaxIter iterations, each of which calls closure, and returns the loss before the first. Parameters without a
// gradient stay where they are. An error, of the closure too, leaves parameters and state as they were.
func (o *LBFGSOptimizer) StepClosure(closure Closure) (loss float64, err error) {
	if err := o.ready(closure); err != nil {
		return 0, err
	}
	if oplabel.Wanted() {
		defer oplabel.Enter(oplabel.Enter(oplabel.Of(oplabel.Label{Op: "LBFGS", Step: true})))
		defer o.MarkState(training.Key{})
	}
	start, err := o.gather(parameterOf)
	if err != nil {
		return 0, fmt.Errorf("optim: LBFGS: %w", err)
	}
	defer start.Release()
	r := &lbfgsRun{o: o, closure: closure, state: o.state.retained()}
	loss, err = r.run()
	if err == nil {
		r.state, o.state = o.state, r.state
	}
	r.state.release()
	if err != nil {
		if back := o.set(start); back != nil {
			return 0, fmt.Errorf("optim: LBFGS: %w; and the parameters could not be set back: %v", err, back)
		}
		return 0, fmt.Errorf("optim: LBFGS: %w", err)
	}
	return loss, nil
}

// ready is what a step begins with.
func (o *LBFGSOptimizer) ready(closure Closure) error {
	if err := o.Err(); err != nil {
		return err
	}
	switch {
	case closure == nil:
		return &ConfigError{"LBFGS", "it has no closure: call StepClosure, or SetClosure before Step"}
	case len(o.params) == 0:
		return &ConfigError{"LBFGS", "the optimizer has an empty list of parameters"}
	}
	return o.uniform()
}

// uniform refuses parameters that cannot be one vector.
func (o *LBFGSOptimizer) uniform() error {
	first := o.params[0].Tensor()
	for _, p := range o.params {
		if err := trains("LBFGS", p); err != nil {
			return err
		}
		if of := autograd.PartOf(training.Key{}, p); of != "" {
			return &ConfigError{"LBFGS", of + ", and LBFGS looks at the whole: it is for ZeRO 0"}
		}
		t := p.Tensor()
		var err error
		switch {
		case t.DType() != first.DType():
			err = &tensor.DTypeError{Op: "Step", DTypes: []tensor.DType{first.DType(), t.DType()}, Detail: "parameters must be of one type"}
		case t.Device().ID() != first.Device().ID():
			err = &tensor.DeviceError{Op: "Step", Devices: []device.ID{first.Device().ID(), t.Device().ID()}, Detail: "parameters must be on one device"}
		case o.state.d != nil && (o.state.d.DType() != t.DType() || o.state.d.Device().ID() != t.Device().ID()):
			err = &tensor.DTypeError{Op: "Step", DTypes: []tensor.DType{t.DType(), o.state.d.DType()},
				Detail: "the state is of another type or device: make the optimizer after To, or load its StateDict into a new one"}
		}
		if err != nil {
			return fmt.Errorf("optim: LBFGS: parameter %q: %w", excerpt.Of(p.Name()), err)
		}
	}
	return nil
}

func parameterOf(p *autograd.Parameter) *tensor.Tensor { return p.Tensor() }

// gather is one vector of what each parameter has, zeros where it has nothing. It is always a new one.
func (o *LBFGSOptimizer) gather(of func(p *autograd.Parameter) *tensor.Tensor) (*tensor.Tensor, error) {
	var c calc
	defer c.release()
	var parts []*tensor.Tensor
	for _, p := range o.params {
		if t := of(p); t != nil {
			parts = append(parts, c.of(t.Reshape(p.Len())))
		} else {
			parts = append(parts, c.of(tensor.Zeros(p.Tensor().Exec(), p.Tensor().DType(), p.Len())))
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	return tensor.Cat(parts, 0)
}

// each calls f for every parameter with its part of a vector.
func (o *LBFGSOptimizer) each(vector *tensor.Tensor, f func(p, part *tensor.Tensor) error) error {
	at := 0
	for _, p := range o.params {
		var c calc
		part := c.of(vector.Narrow(0, at, p.Len()))
		part = c.of(part.View(p.Shape()...))
		at += p.Len()
		if c.err == nil {
			c.do(f(p.Tensor(), part))
		}
		c.release()
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// set sets the parameters.
func (o *LBFGSOptimizer) set(x *tensor.Tensor) error {
	return o.each(x, func(p, part *tensor.Tensor) error { return p.CopyFrom(part) })
}

// move adds t*d to the parameters.
func (o *LBFGSOptimizer) move(t float64, d *tensor.Tensor) error {
	return o.each(d, func(p, part *tensor.Tensor) error { return p.AddInPlace(part, t) })
}

// ZeroGrad releases the gradients of all parameters.
func (o *LBFGSOptimizer) ZeroGrad() {
	for _, p := range o.Parameters() {
		p.ZeroGrad()
	}
}

// Parameters lists the parameters.
func (o *LBFGSOptimizer) Parameters() []*autograd.Parameter {
	if o == nil {
		return nil
	}
	return append([]*autograd.Parameter(nil), o.params...)
}

// Groups is 1: the parameters are in one group.
func (o *LBFGSOptimizer) Groups() int {
	if o == nil {
		return 0
	}
	return 1
}

// LR returns the learning rate, 0 of a group that is not 0.
func (o *LBFGSOptimizer) LR(group int) float64 {
	if o == nil || group != 0 {
		return 0
	}
	return o.settings.LR
}

// InitialLR is the learning rate when InitialLR was first called: what schedules start from.
func (o *LBFGSOptimizer) InitialLR(group int) float64 {
	if o == nil || group != 0 {
		return 0
	}
	if o.initial == nil {
		lr := o.settings.LR
		o.initial = &lr
	}
	return *o.initial
}

// SetLR changes the learning rate from the next step on. A rate that LR would not take, and a group that does not exist, are errors of Err
// and Step.
func (o *LBFGSOptimizer) SetLR(lr float64, groups ...int) {
	if o == nil {
		return
	}
	for _, g := range groups {
		if g != 0 {
			o.fail("SetLR: there is no group %d, of 1", g)
			return
		}
	}
	if !countable(lr) {
		o.fail("learning rate %v; it must be finite and not negative", lr)
		return
	}
	o.settings.LR = lr
}

// Momentum is 0: there is none.
func (o *LBFGSOptimizer) Momentum(int) float64 { return 0 }

// SetMomentum is an error of Err and Step.
func (o *LBFGSOptimizer) SetMomentum(momentum float64, _ int) {
	o.fail("SetMomentum to %v: it has no momentum", momentum)
}

// StateBytes is the device memory of the state.
func (o *LBFGSOptimizer) StateBytes() (total uint64) {
	if o == nil {
		return 0
	}
	for _, t := range o.state.tensors() {
		total += t.StorageBytes()
	}
	return total
}

// Release releases the state: the next step is a first one.
func (o *LBFGSOptimizer) Release() {
	if o != nil {
		o.state.release()
	}
}

// String is the optimizer in one line, as in "LBFGS: 4 parameters, lr 1, 12 iterations".
func (o *LBFGSOptimizer) String() string {
	if o == nil || o.settings == (Settings{}) {
		return "optimizer (nil)"
	}
	if o.err != nil {
		return failed("LBFGS", o.err)
	}
	return fmt.Sprintf("LBFGS: %s, lr %v, %s so far", oneline.Count(len(o.params), "parameter"), o.settings.LR, oneline.Count(o.state.iters, "iteration"))
}

// lbfgsRun is a step in progress.
type lbfgsRun struct {
	o       *LBFGSOptimizer
	closure Closure
	state   lbfgsState
}

// evaluate calls the closure. The gradient is the caller's.
func (r *lbfgsRun) evaluate() (point, error) {
	loss, err := r.closure()
	if err != nil {
		return point{}, err
	}
	if err := r.o.gradients(); err != nil {
		return point{}, err
	}
	grad, err := r.o.gather(func(p *autograd.Parameter) *tensor.Tensor { return p.Grad() })
	r.state.evals++
	return point{loss: loss, grad: grad}, err
}

// gradients refuses what the closure has left, if it fits no parameter.
func (o *LBFGSOptimizer) gradients() error {
	if err := o.uniform(); err != nil {
		return err
	}
	for _, p := range o.params {
		if p.Grad() == nil {
			continue
		}
		if err := steppable(p); err != nil {
			return fmt.Errorf("parameter %q: %w", excerpt.Of(p.Name()), err)
		}
	}
	return nil
}

// run iterates until the gradient, the step or the loss says that it is enough, and returns the first loss.
func (r *lbfgsRun) run() (first float64, err error) {
	s := &r.o.settings
	at, err := r.evaluate()
	if err != nil {
		return 0, err
	}
	defer func() { at.release() }()
	before := r.state.evals - 1
	first = at.loss
	if flat, err := small(at.grad, s.ToleranceGrad); err != nil || flat {
		return first, err
	}
	for n := 1; n <= s.MaxIter; n++ {
		if err := r.aim(at); err != nil {
			return 0, err
		}
		if at.slope, err = dot(at.grad, r.state.d); err != nil {
			return 0, err
		}
		if at.slope > -s.ToleranceChange {
			break
		}
		if err := r.advance(&at, n == s.MaxIter); err != nil {
			return 0, err
		}
		if n == s.MaxIter || r.state.evals-before >= s.MaxEval {
			break
		}
		if done, err := r.done(at); err != nil || done {
			return first, err
		}
	}
	return first, nil
}

// aim chooses the direction and the first length of an iteration's step.
func (r *lbfgsRun) aim(at point) error {
	st, s := &r.state, &r.o.settings
	st.iters++
	if st.iters == 1 {
		sum, err := reduced(at.grad, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Sum(nil, false) })
		if err != nil {
			return err
		}
		d, err := at.grad.Neg()
		if err != nil {
			return err
		}
		st.d, st.t, st.diagonal = d, min(1, 1/sum)*s.LR, 1
	} else {
		if err := st.remember(at.grad, s.HistorySize); err != nil {
			return err
		}
		d, err := st.newton(at.grad)
		if err != nil {
			return err
		}
		st.d.Release()
		st.d, st.t = d, s.LR
	}
	st.prevGrad.Release()
	st.prevGrad, st.prevLoss = at.grad.Retain(), at.loss
	return nil
}

// advance takes the step of an iteration.
func (r *lbfgsRun) advance(at *point, last bool) error {
	if r.o.settings.StrongWolfe {
		found, err := r.search(*at)
		if err != nil {
			return err
		}
		at.release()
		*at, r.state.t = found, found.t
		return r.o.move(r.state.t, r.state.d)
	}
	if err := r.o.move(r.state.t, r.state.d); err != nil || last {
		return err
	}
	next, err := r.evaluate()
	if err != nil {
		return err
	}
	at.release()
	*at = next
	return nil
}

// done reports whether there is no reason for another iteration.
func (r *lbfgsRun) done(at point) (bool, error) {
	s := &r.o.settings
	if flat, err := small(at.grad, s.ToleranceGrad); err != nil || flat {
		return true, err
	}
	if tiny, err := small(r.state.d, s.ToleranceChange/math.Abs(r.state.t)); err != nil || tiny {
		return true, err
	}
	return math.Abs(at.loss-r.state.prevLoss) < s.ToleranceChange, nil
}

// small reports whether no element is greater than limit, in absolute value.
func small(t *tensor.Tensor, limit float64) (bool, error) {
	most, err := largest(t)
	return most <= limit, err
}

// largest is the largest absolute value, 0 of nothing.
func largest(t *tensor.Tensor) (float64, error) {
	if t.Len() == 0 {
		return 0, nil
	}
	return reduced(t, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Max(nil, false) })
}

// reduced is a number of the absolute values.
func reduced(t *tensor.Tensor, how func(t *tensor.Tensor) (*tensor.Tensor, error)) (float64, error) {
	var c calc
	defer c.release()
	v := c.of(how(c.of(t.Abs())))
	if c.err != nil {
		return 0, c.err
	}
	return v.Item()
}

func dot(a, b *tensor.Tensor) (float64, error) {
	t, err := a.Dot(b)
	if err != nil {
		return 0, err
	}
	defer t.Release()
	return t.Item()
}

// MarkState tells meters what the state is: of all parameters at once, in no module. It is for packages of this module, which alone can write the key.
func (o *LBFGSOptimizer) MarkState(training.Key) {
	if o == nil {
		return
	}
	for _, t := range o.state.tensors() {
		tensor.Mark(training.Key{}, t, memmeter.State, oplabel.Label{Op: "LBFGS", Step: true})
	}
}
