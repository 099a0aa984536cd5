package optim

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/oneline"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// ClipOption changes how ClipGradNorm measures.
type ClipOption func(*clipping)

type clipping struct {
	p      float64
	strict bool // ErrorIfNonFinite
}

// NormType measures by the p-norm instead of the 2-norm: p is greater than 0, infinity for the largest element.
func NormType(p float64) ClipOption { return func(c *clipping) { c.p = p } }

// ErrorIfNonFinite makes a norm that is infinite or NaN a *NonFiniteError. It waits for the device.
func ErrorIfNonFinite() ClipOption { return func(c *clipping) { c.strict = true } }

// NonFiniteError says that the norm of the gradients is infinite or NaN, which ErrorIfNonFinite asked for.
type NonFiniteError struct {
	Norm float64
	P    float64 // which norm
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("optim: ClipGradNorm: the %v-norm of the gradients is %v; they are left as they are", e.P, e.Norm)
}

// ClipGradNorm scales the gradients of all parameters together, in place, so that the norm of all their elements is at most
// maxNorm, and returns the norm before (torch.nn.utils.clip_grad_norm_). Parameters without a gradient are skipped. It waits for
// the device, to return the norm: ClipGradNormAsync does not.
//
// Where ranks share gradients out (autograd/parallel with ZeRO 1 to 3) the norm is that of all ranks' parts, and both the model's parameters and the
// parts are a *ConfigError that says what to call: DataParallel.ClipGradNorm.
//
// As in PyTorch, a norm that is not finite is no error: it is what a GradScaler looks for, which then skips the step. Without
// one, check the result, or ask for ErrorIfNonFinite: the gradients are not usable, and are left as they are.
func ClipGradNorm(params []*autograd.Parameter, maxNorm float64, opts ...ClipOption) (float64, error) {
	return clipGradNorm(params, maxNorm, true, opts)
}

// ClipGradNormAsync is ClipGradNorm without the norm: nothing waits for the device, if all gradients are on one device and stream
// and ErrorIfNonFinite is not given. The gradients of one type take two launches, whatever their number.
func ClipGradNormAsync(params []*autograd.Parameter, maxNorm float64, opts ...ClipOption) error {
	_, err := clipGradNorm(params, maxNorm, false, opts)
	return err
}

func clipGradNorm(params []*autograd.Parameter, maxNorm float64, read bool, opts []ClipOption) (float64, error) {
	c := clipping{p: 2}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	if !(maxNorm >= 0) {
		return 0, &ConfigError{"ClipGradNorm", fmt.Sprintf("norm %v; it must be a number that is not negative", maxNorm)}
	}
	if !(c.p > 0) {
		return 0, &ConfigError{"ClipGradNorm", fmt.Sprintf("norm type %v; it must be greater than 0", c.p)}
	}
	groups, err := gradients("ClipGradNorm", params, true)
	if err != nil {
		return 0, err
	}
	norms := make([]*tensor.Tensor, len(groups))
	defer func() {
		for _, n := range norms {
			n.Release()
		}
	}()
	for i, g := range groups {
		n, err := steps.GradNorm(g.exec, g.grads, c.p)
		if err != nil {
			return 0, g.wrap("ClipGradNorm", err)
		}
		norms[i] = n
	}
	total, err := joined(norms, c.p, read || c.strict)
	if err != nil {
		return 0, fmt.Errorf("optim: ClipGradNorm: %w", err)
	}
	if c.strict && total-total != 0 {
		return total, &NonFiniteError{Norm: total, P: c.p}
	}
	for i, g := range groups {
		if err := steps.ClipGradNorm(g.grads, norms[i], maxNorm, false); err != nil {
			return total, g.wrap("ClipGradNorm", err)
		}
	}
	return total, nil
}

// joined makes each of the norms that of all groups. One alone is so already, and only read if that is asked for. Several are
// joined on the host.
func joined(norms []*tensor.Tensor, p float64, read bool) (float64, error) {
	if len(norms) == 0 || len(norms) == 1 && !read {
		return 0, nil
	}
	total := 0.0
	for _, n := range norms {
		v, err := n.Item()
		if err != nil {
			return 0, err
		}
		switch {
		case len(norms) == 1:
			return v, nil
		case math.IsInf(p, 1):
			total = max(total, v)
		default:
			total += math.Pow(v, p)
		}
	}
	if !math.IsInf(p, 1) {
		total = math.Pow(total, 1/p)
	}
	for _, n := range norms {
		if err := n.FillInPlace(total); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// ClipGradValue brings every element of the parameters' gradients into -limit..limit, in place
// (torch.nn.utils.clip_grad_value_). Parameters without a gradient are skipped; NaN stays. It does not wait for the device.
// Of ranks that share gradients out each clips its parts, DataParallel.Parameters; the model's own parameters are a *ConfigError then.
func ClipGradValue(params []*autograd.Parameter, limit float64) error {
	if !(limit >= 0) {
		return &ConfigError{"ClipGradValue", fmt.Sprintf("limit %v; it must be a number that is not negative", limit)}
	}
	groups, err := gradients("ClipGradValue", params, false)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := steps.ClipGradValue(g.exec, g.grads, limit); err != nil {
			return g.wrap("ClipGradValue", err)
		}
	}
	return nil
}

// gradGroup is the gradients on one stream.
type gradGroup struct {
	exec  tensor.Exec
	grads []*tensor.Tensor
	name  string // of the first parameter
}

func (g *gradGroup) wrap(what string, err error) error {
	whose := "the gradient of " + excerpt.Quote(g.name)
	if others := len(g.grads) - 1; others > 0 {
		whose = "the gradients of " + excerpt.Quote(g.name) + " and " + oneline.Count(others, "other")
	}
	return fmt.Errorf("optim: %s: %s: %w", what, whose, err)
}

// gradients groups the gradients by where they are worked on. Those that several ranks share out are refused where they are not there, not complete, or, for what looks at all of them together, parts.
func gradients(op string, params []*autograd.Parameter, together bool) ([]*gradGroup, error) {
	var groups []*gradGroup
next:
	for _, p := range params {
		if why := unready(p, together); why != "" {
			return nil, &ConfigError{op, why}
		}
		t := p.Grad()
		if t == nil {
			continue
		}
		for _, g := range groups {
			if g.exec == t.Exec() {
				g.grads = append(g.grads, t)
				continue next
			}
		}
		groups = append(groups, &gradGroup{exec: t.Exec(), grads: []*tensor.Tensor{t}, name: p.Name()})
	}
	return groups, nil
}

// unready is why the gradient of a parameter cannot be clipped, with what to call, or "".
func unready(p *autograd.Parameter, together bool) string {
	const call = "call DataParallel.ClipGradNorm"
	key := training.Key{}
	switch instead := autograd.Instead(key, p); {
	case instead != "" && together:
		return instead + ": " + call
	case instead != "":
		return instead + ": give what DataParallel.Parameters has"
	case together && autograd.PartOf(key, p) != "":
		return autograd.PartOf(key, p) + ", and the norm is that of all ranks' parts: " + call
	}
	return autograd.Waiting(key, p)
}
