package amp

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// DeviceDefault stands for the lower precision that PyTorch chooses for the graph's device; see DefaultDType.
const DeviceDefault tensor.DType = 0

// DefaultDType is the lower precision that autocast uses on a kind of device if nobody chose one: float16 on CUDA devices, and
// on simulated ones, which stand for them; bfloat16 on the host.
func DefaultDType(kind device.Kind) tensor.DType {
	if kind == device.Host {
		return tensor.BFloat16
	}
	return tensor.Float16
}

// Option changes how autocast works in a graph or a region.
type Option interface{ applyTo(*autocast) }

type option func(*autocast)

func (o option) applyTo(a *autocast) { o(a) }

// Enabled switches autocast, or a GradScaler, on or off: amp.Enabled(false). It is on if nothing is said. A region that is off
// inside one that is on computes in the types that its arguments have.
type Enabled bool

func (on Enabled) applyTo(a *autocast) { a.enabled = bool(on) }

// DType chooses the lower precision: float16, bfloat16 or DeviceDefault. Without it a region has that of the region around.
func DType(dt tensor.DType) Option { return option(func(a *autocast) { a.dtype = dt }) }

// CacheEnabled switches the weight cache on or off; it is on if nothing is said. A region without it has the setting of the
// region around.
func CacheEnabled(on bool) Option { return option(func(a *autocast) { a.cache = on }) }

// Options makes one option of several, which take effect in their order.
func Options(opts ...Option) Option {
	return option(func(a *autocast) {
		for _, o := range opts {
			if o != nil {
				o.applyTo(a)
			}
		}
	})
}

// autocast is the state of a region. It does not change once the region has begun, so graphs may share it.
type autocast struct {
	dtype   tensor.DType // as chosen; may be DeviceDefault
	enabled bool
	cache   bool
	weights *WeightCache // nil for none
}

// Autocast makes a graph that runs each operation in the precision that suits it (torch.autocast): matrix products in dt, which
// is float16, bfloat16 or DeviceDefault, what needs the range in float32, and the rest in the types of its arguments. See the
// package comment. Another type is an *AutocastError of the graph's first operation.
func Autocast(dt tensor.DType, opts ...Option) autograd.Option {
	a := &autocast{dtype: dt, enabled: true, cache: true}
	Options(opts...).applyTo(a)
	return autograd.WithCaster(a)
}

// Region runs f with autocast in g changed by o, and puts it back afterwards, also if f panics:
//
//	amp.Region(g, amp.Enabled(false), func() { y = x.MatMul(w) })
//
// As torch.autocast, a region inside another has its lower precision and its cache setting unless o changes them, and is on
// unless o says otherwise, also in a graph without autocast. Regions nest. Casts of weights are shared between all regions of
// the graph. Without a graph or a function there is nothing to do.
func Region(g *autograd.Graph, o Option, f func()) {
	if g == nil || f == nil {
		return
	}
	before := g.SetCaster(nil)
	a := &autocast{enabled: true, cache: true}
	if outer, ok := before.(*autocast); ok {
		a.dtype, a.cache, a.weights = outer.dtype, outer.cache, outer.weights
	}
	if o != nil {
		o.applyTo(a)
	}
	g.Fail(a.check())
	g.SetCaster(a)
	defer g.SetCaster(before)
	f()
}

// Active reports the lower precision of autocast in g at this place, and whether autocast is on
// (torch.get_autocast_dtype, torch.is_autocast_enabled). In a nil graph it is off.
func Active(g *autograd.Graph) (dt tensor.DType, enabled bool) {
	if g.Device() == nil {
		return 0, false
	}
	c := g.SetCaster(nil)
	g.SetCaster(c)
	a, ok := c.(*autocast)
	if !ok {
		return DefaultDType(g.Device().ID().Kind), false
	}
	return a.lower(g), a.enabled
}

// check refuses types that are no lower precision.
func (a *autocast) check() error {
	switch a.dtype {
	case DeviceDefault, tensor.Float16, tensor.BFloat16:
		return nil
	}
	if !a.enabled {
		return nil
	}
	return &AutocastError{DType: a.dtype}
}

// lower is the lower precision in g.
func (a *autocast) lower(g *autograd.Graph) tensor.DType {
	if a.dtype == DeviceDefault {
		return DefaultDType(g.Device().ID().Kind)
	}
	return a.dtype
}
