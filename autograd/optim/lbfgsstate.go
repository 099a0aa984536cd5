package optim

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// lbfgsState is what LBFGS keeps. Its tensors are vectors of all parameters, and do not change.
type lbfgsState struct {
	evals, iters   int
	d, prevGrad    *tensor.Tensor
	t, prevLoss    float64
	changes, moves []*tensor.Tensor // of the gradient and of the parameters: pairs, the oldest first
	ro             []float64        // 1/(change*move)
	diagonal       float64          // of the first approximation of the inverse Hessian
}

func (st *lbfgsState) tensors() []*tensor.Tensor {
	all := slices.Concat(st.changes, st.moves)
	for _, t := range []*tensor.Tensor{st.d, st.prevGrad} {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

// retained is the state with handles of its own.
func (st *lbfgsState) retained() lbfgsState {
	c := *st
	c.changes, c.moves, c.ro = nil, nil, slices.Clone(st.ro)
	for i := range st.changes {
		c.changes, c.moves = append(c.changes, st.changes[i].Retain()), append(c.moves, st.moves[i].Retain())
	}
	if st.d != nil {
		c.d, c.prevGrad = st.d.Retain(), st.prevGrad.Retain()
	}
	return c
}

func (st *lbfgsState) release() {
	for _, t := range st.tensors() {
		t.Release()
	}
	*st = lbfgsState{}
}

// remember adds what the last step has told about the curvature, if it is convex there.
func (st *lbfgsState) remember(grad *tensor.Tensor, size int) error {
	var c calc
	defer c.release()
	change, move := c.of(grad.Sub(st.prevGrad)), c.of(st.d.MulScalar(st.t))
	if c.err != nil {
		return c.err
	}
	curvature, err := dot(change, move)
	if err != nil || !(curvature > 1e-10) {
		return err
	}
	square, err := dot(change, change)
	if err != nil {
		return err
	}
	for len(st.ro) >= size {
		st.changes[0].Release()
		st.moves[0].Release()
		st.changes, st.moves, st.ro = st.changes[1:], st.moves[1:], st.ro[1:]
	}
	st.changes, st.moves = append(st.changes, change.Retain()), append(st.moves, move.Retain())
	st.ro, st.diagonal = append(st.ro, 1/curvature), curvature/square
	return nil
}

// newton is minus the gradient multiplied by the approximate inverse Hessian, in two loops over the history.
func (st *lbfgsState) newton(grad *tensor.Tensor) (_ *tensor.Tensor, err error) {
	d, err := grad.Neg()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.Release()
		}
	}()
	taken := make([]float64, len(st.ro))
	for i := len(st.ro) - 1; i >= 0; i-- {
		v, err := dot(st.moves[i], d)
		if err != nil {
			return nil, err
		}
		taken[i] = v * st.ro[i]
		if err := d.AddInPlace(st.changes[i], -taken[i]); err != nil {
			return nil, err
		}
	}
	if err := d.MulScalarInPlace(st.diagonal); err != nil {
		return nil, err
	}
	for i := range st.ro {
		v, err := dot(st.changes[i], d)
		if err != nil {
			return nil, err
		}
		if err := d.AddInPlace(st.moves[i], taken[i]-v*st.ro[i]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// lbfgsNumbers are the numbers of the state, in the group of a StateDict. A float64 in JSON is exact.
type lbfgsNumbers struct {
	Evals    int       `json:"func_evals"`
	Iters    int       `json:"n_iter"`
	T        float64   `json:"t"`
	Diagonal float64   `json:"H_diag"`
	PrevLoss float64   `json:"prev_loss"`
	Ro       []float64 `json:"ro"`
}

// StateDict returns settings and state, as Grouped.StateDict does. The state is that of parameter 0, as in PyTorch: vectors "d",
// "prev_flat_grad", "old_dirs.0", "old_stps.0" and so on, of all parameters one after the other. Its numbers are in the group, as "lbfgs".
func (o *LBFGSOptimizer) StateDict() (StateDict, error) {
	if err := o.Err(); err != nil {
		return StateDict{}, err
	}
	numbers := make([]int, len(o.params))
	for i := range numbers {
		numbers[i] = i
	}
	st := &o.state
	group := GroupState{"params": numbers, "lbfgs": lbfgsNumbers{st.evals, st.iters, st.t, st.diagonal, st.prevLoss, slices.Clone(st.ro)}}
	for _, f := range lbfgsFields(&o.settings) {
		group[f.key] = f.value()
	}
	if o.initial != nil {
		group["initial_lr"] = *o.initial
	}
	d := StateDict{Optimizer: "LBFGS", State: map[int]ParamState{}, Groups: []GroupState{group}}
	if st.d == nil {
		return d, nil
	}
	tensors := map[string]*tensor.Tensor{"d": st.d, "prev_flat_grad": st.prevGrad}
	for i := range st.ro {
		tensors[fmt.Sprintf("old_dirs.%d", i)], tensors[fmt.Sprintf("old_stps.%d", i)] = st.changes[i], st.moves[i]
	}
	d.State[0] = ParamState{Step: st.iters, Tensors: tensors}
	return d, nil
}

// LoadStateDict goes on from a state, as Grouped.LoadStateDict does. If it fails, the optimizer is as it was.
func (o *LBFGSOptimizer) LoadStateDict(d StateDict) error {
	p, err := o.PrepareStateDict(d)
	if err != nil {
		return err
	}
	p.Swap()
	p.Release()
	return nil
}

// PrepareStateDict does the part of LoadStateDict that can fail, and changes nothing. The caller swaps the result in, and releases it.
func (o *LBFGSOptimizer) PrepareStateDict(d StateDict) (*PreparedState, error) {
	if err := o.Err(); err != nil {
		return nil, err
	}
	if d.Optimizer != "" && d.Optimizer != "LBFGS" {
		return nil, another("LBFGS", loadDict, d.Optimizer)
	}
	settings, initial, numbers, err := o.readGroup(d)
	if err != nil {
		return nil, err
	}
	st, err := o.restored(d, numbers, settings.HistorySize)
	if err != nil {
		return nil, err
	}
	return &PreparedState{
		swap: func() {
			o.settings, settings = settings, o.settings
			o.initial, initial = initial, o.initial
			o.state, st = st, o.state
			if oplabel.Wanted() {
				o.MarkState(training.Key{})
			}
		},
		release: func() { st.release() },
	}, nil
}

func lbfgsUnfit(format string, args ...any) error {
	return &StateError{Of: "LBFGS", Method: loadDict, Detail: fmt.Sprintf(format, args...)}
}

// readGroup reads and checks what of a state is no tensor.
func (o *LBFGSOptimizer) readGroup(d StateDict) (s Settings, initial *float64, n lbfgsNumbers, err error) {
	if len(d.Groups) != 1 {
		return s, nil, n, lbfgsUnfit("%d groups of parameters; the optimizer has 1", len(d.Groups))
	}
	var numbers []int
	text, err := json.Marshal(d.Groups[0]["params"])
	if err != nil || json.Unmarshal(text, &numbers) != nil || len(numbers) != len(o.params) {
		return s, nil, n, lbfgsUnfit("group 0 has parameters %s; the optimizer has %d", text, len(o.params))
	}
	s = o.settings
	fields := lbfgsFields(&s)
	if _, ok := d.Groups[0]["initial_lr"]; ok {
		initial = new(float64)
		fields = append(fields, number("initial_lr", initial))
	}
	for _, f := range fields {
		v, ok := d.Groups[0][f.key]
		if !ok {
			return s, nil, n, lbfgsUnfit("group 0: no %q", f.key)
		}
		if err := f.set(v); err != nil {
			return s, nil, n, lbfgsUnfit("group 0: %s: %v", f.key, err)
		}
	}
	if initial != nil && !countable(*initial) {
		return s, nil, n, lbfgsUnfit("initial_lr %v; it must be finite and not negative", *initial)
	}
	if err := checkLBFGS(&s); err != nil {
		return s, nil, n, lbfgsUnfit("%v", err)
	}
	text, err = json.Marshal(d.Groups[0]["lbfgs"])
	if err != nil || json.Unmarshal(text, &n) != nil {
		return s, nil, n, lbfgsUnfit("group 0: lbfgs: want the numbers of a state")
	}
	return s, initial, n, n.check(s.HistorySize)
}

func (n *lbfgsNumbers) check(size int) error {
	for _, v := range slices.Concat([]float64{n.T, n.Diagonal, n.PrevLoss}, n.Ro) {
		if !countable(math.Abs(v)) {
			return lbfgsUnfit("group 0: lbfgs: %v; want finite numbers", v)
		}
	}
	if n.Evals < 0 || n.Evals > maxSteps || n.Iters < 0 || n.Iters > maxSteps || len(n.Ro) > size || len(n.Ro) > n.Iters {
		return lbfgsUnfit("group 0: lbfgs: %d evaluations, %d iterations and %d vectors of a history of %d", n.Evals, n.Iters, len(n.Ro), size)
	}
	return nil
}

// restored copies the tensors of a state.
func (o *LBFGSOptimizer) restored(d StateDict, n lbfgsNumbers, size int) (st lbfgsState, err error) {
	st = lbfgsState{evals: n.Evals, iters: n.Iters, t: n.T, diagonal: n.Diagonal, prevLoss: n.PrevLoss}
	from, ok := d.State[0]
	if !ok && n.Iters == 0 && len(d.State) == 0 {
		return st, nil
	}
	if !ok || len(d.State) != 1 || n.Iters == 0 || from.Step != n.Iters || len(from.Tensors) != 2+2*len(n.Ro) {
		return st, lbfgsUnfit("states of parameters %v, and %d tensors; want those of parameter 0 after %d iterations, %d tensors",
			slices.Sorted(maps.Keys(d.State)), len(from.Tensors), n.Iters, 2+2*len(n.Ro))
	}
	if len(o.params) == 0 {
		return st, lbfgsUnfit("the optimizer has no parameters")
	}
	if err := o.uniform(); err != nil {
		return st, err
	}
	total := 0
	for _, p := range o.params {
		total += p.Len()
	}
	var c calc
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	take := func(name string) *tensor.Tensor {
		t := from.Tensors[name]
		if c.err != nil {
			return nil
		}
		if t == nil || !t.Shape().Equal(tensor.Shape{total}) {
			c.do(lbfgsUnfit("%s is missing, or is no vector of %d elements", name, total))
			return nil
		}
		like := o.params[0].Tensor()
		return c.of(copyBeside(like, t, like.DType()))
	}
	st.d, st.prevGrad, st.ro = take("d"), take("prev_flat_grad"), slices.Clone(n.Ro)
	for i := range n.Ro {
		st.changes = append(st.changes, take(fmt.Sprintf("old_dirs.%d", i)))
		st.moves = append(st.moves, take(fmt.Sprintf("old_stps.%d", i)))
	}
	return st, c.err
}
