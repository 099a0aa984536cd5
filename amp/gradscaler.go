package amp

import (
	"reflect"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// Stepper changes parameters by their gradients.
type Stepper interface {
	Step() error
}

// Optimizer is a Stepper that says which parameters it changes: what GradScaler needs of an optimizer. Those of autograd/optim
// are. Optimizers are told apart by identity, so they are pointers.
type Optimizer interface {
	Stepper
	Parameters() []*autograd.Parameter
}

// FusedStepper is an Optimizer that unscales and skips by itself, on the device (_step_supports_amp_scaling in PyTorch). With
// it GradScaler.Step does not wait for the device. Those of autograd/optim are, and so is a type that embeds one: there Step of the
// GradScaler calls StepScaled, not a Step that the type has instead.
type FusedStepper interface {
	Optimizer
	// StepScaled is Step for gradients that are multiplied by gradScale, or that are not if it is nil. If foundInf is not 0,
	// nothing may change. Both have one element of type float32, may be on another device than a parameter, and stay the caller's,
	// who orders the streams: work on them comes before that on the parameters' streams on their device, and after it.
	StepScaled(gradScale, foundInf *tensor.Tensor) error
}

// GradScaler keeps small gradients from vanishing in float16: it multiplies the loss by a scale, so that the gradients are
// larger by it, divides the gradients by it before the optimizer's step, leaves a step out if any gradient overflowed, and adapts
// the scale. The package comment has the whole story; names, defaults and numbers are those of torch.amp.GradScaler.
//
// The scale and its growth tracker are on the device of what is scaled first, on its stream, and from its allocator. A
// GradScaler is for one goroutine at a time.
type GradScaler struct {
	enabled        bool
	growthFactor   float64
	backoffFactor  float64
	growthInterval int
	initScale      float64
	initTracker    int32
	agreed         OverflowAgreer
	err            error // a setting that is not allowed

	scale      *tensor.Tensor // one float32; nil until something is scaled
	tracker    *tensor.Tensor // one int32: steps without overflow since the scale was changed
	optimizers []*progress    // those seen since the last Update
}

// ScalerOption changes a setting of NewGradScaler.
type ScalerOption interface{ applyToScaler(*GradScaler) }

type scalerOption func(*GradScaler)

func (o scalerOption) applyToScaler(s *GradScaler) { o(s) }

func (on Enabled) applyToScaler(s *GradScaler) { s.enabled = bool(on) }

// InitScale is the first scale; the default is 65536. It must be more than 0, and finite in float32.
func InitScale(v float64) ScalerOption { return scalerOption(func(s *GradScaler) { s.initScale = v }) }

// GrowthFactor is what the scale is multiplied by after GrowthInterval steps without overflow; the default is 2. It must be
// more than 1, and finite.
func GrowthFactor(v float64) ScalerOption {
	return scalerOption(func(s *GradScaler) { s.growthFactor = v })
}

// BackoffFactor is what the scale is multiplied by after an overflow; the default is 0.5. It must be more than 0 and less than 1.
func BackoffFactor(v float64) ScalerOption {
	return scalerOption(func(s *GradScaler) { s.backoffFactor = v })
}

// GrowthInterval is how many steps without overflow make the scale grow; the default is 2000. It must be at least 1.
func GrowthInterval(n int) ScalerOption {
	return scalerOption(func(s *GradScaler) { s.growthInterval = n })
}

// OverflowAgreer decides with others whether a gradient overflowed: where several processes train one model, and each has a part of the gradients, all
// leave a step out or none. A parallel.DataParallel is one.
type OverflowAgreer interface {
	// AgreeOverflow makes found, one float32 that is not 0 if a gradient here was infinite or NaN, what it is for all. Work on it is ordered by its stream.
	AgreeOverflow(found *tensor.Tensor) error
}

// AgreedBy makes a decide with others whether a gradient overflowed, after each search of an optimizer's gradients: all of them call Unscale and Step in the same order. A nil a is none.
func AgreedBy(a OverflowAgreer) ScalerOption {
	return scalerOption(func(s *GradScaler) {
		if s.agreed = nil; !isnil.Value(a) {
			s.agreed = a
		}
	})
}

// NewGradScaler makes a GradScaler. It takes no memory. A setting that is not allowed is the error of Err and of all its methods.
//
// With Enabled(false) it does nothing: Scale returns what it is given, Unscale and Update do nothing, and Step is the
// optimizer's. So a program can switch between float16, which needs scaling, and other types, which do not, in one place.
func NewGradScaler(opts ...ScalerOption) *GradScaler {
	s := &GradScaler{enabled: true, initScale: 65536, growthFactor: 2, backoffFactor: 0.5, growthInterval: 2000}
	for _, o := range opts {
		if o != nil {
			o.applyToScaler(s)
		}
	}
	s.recheck("NewGradScaler")
	return s
}

// Err returns what is wrong with the settings, if anything.
func (s *GradScaler) Err() error {
	s = s.given()
	return s.err
}

// IsEnabled reports whether the GradScaler does anything.
func (s *GradScaler) IsEnabled() bool { return s != nil && s.enabled }

// GrowthFactor is the setting of that name.
func (s *GradScaler) GrowthFactor() float64 {
	s = s.given()
	return s.growthFactor
}

// SetGrowthFactor changes it from the next Update on. What NewGradScaler would not take is the error of Err and of all methods.
func (s *GradScaler) SetGrowthFactor(v float64) {
	s = s.given()
	s.growthFactor = v
	s.recheck("SetGrowthFactor")
}

// BackoffFactor is the setting of that name.
func (s *GradScaler) BackoffFactor() float64 {
	s = s.given()
	return s.backoffFactor
}

// SetBackoffFactor changes it from the next Update on. What NewGradScaler would not take is the error of Err and of all methods.
func (s *GradScaler) SetBackoffFactor(v float64) {
	s = s.given()
	s.backoffFactor = v
	s.recheck("SetBackoffFactor")
}

// GrowthInterval is the setting of that name.
func (s *GradScaler) GrowthInterval() int {
	s = s.given()
	return s.growthInterval
}

// SetGrowthInterval changes it from the next Update on. What NewGradScaler would not take is the error of Err and of all methods.
func (s *GradScaler) SetGrowthInterval(n int) {
	s = s.given()
	s.growthInterval = n
	s.recheck("SetGrowthInterval")
}

// given is s, or for nil a GradScaler whose methods all return NoScaler.
func (s *GradScaler) given() *GradScaler {
	if s == nil {
		return &GradScaler{enabled: true, err: &ScalerError{Method: "GradScaler", Misuse: NoScaler}}
	}
	return s
}

// recheck keeps the first thing that is wrong with the settings.
func (s *GradScaler) recheck(method string) {
	if s.enabled && s.err == nil {
		s.err = s.settings().check(method)
	}
}

// GetScale waits for the device and returns the scale: 1 if the GradScaler is disabled, the first one before anything was
// scaled.
func (s *GradScaler) GetScale() (float64, error) {
	s = s.given()
	switch {
	case !s.enabled:
		return 1, nil
	case s.err != nil:
		return 0, s.err
	case s.scale == nil:
		return s.initScale, nil
	}
	return s.scale.Item()
}

// StateBytes is the device memory that the GradScaler holds, as the allocators' statistics count it, in bytes: of the scale and its growth tracker, from the first Scale
// on, and between Unscale, or Step, and Update of the flags that say whether gradients overflowed.
func (s *GradScaler) StateBytes() uint64 {
	s = s.given()
	total := s.scale.StorageBytes() + s.tracker.StorageBytes()
	for _, p := range s.optimizers {
		for _, t := range p.found {
			total += t.StorageBytes()
		}
	}
	return total
}

// Release gives the device memory back. Without a State that was taken before, and is loaded afterwards, the next Scale begins
// anew with the first scale.
func (s *GradScaler) Release() {
	s = s.given()
	s.forget()
	s.scale.Release()
	s.tracker.Release()
	s.scale, s.tracker = nil, nil
}

// stage is how far an optimizer has come since the last Update.
type stage uint8

const (
	ready    stage = iota
	unscaled       // its gradients are divided by the scale
	stepped        // Step was called
)

// progress is an optimizer that was used since the last Update.
type progress struct {
	opt     Optimizer
	stage   stage
	skipped *bool            // whether the Step was left out; nil if nobody knows
	found   []*tensor.Tensor // one for each device with gradients, of one float32: not 0 if any was infinite or NaN
}

// of returns the progress of an optimizer, beginning it if need be.
func (s *GradScaler) of(method string, opt Optimizer) (*progress, error) {
	if isnil.Value(opt) || !reflect.ValueOf(opt).Comparable() {
		return nil, &ScalerError{Method: method, Misuse: BadOptimizer}
	}
	for _, p := range s.optimizers {
		if p.opt == opt {
			return p, nil
		}
	}
	p := &progress{opt: opt}
	s.optimizers = append(s.optimizers, p)
	return p, nil
}

// usable refuses methods that make sense only after something was scaled.
func (s *GradScaler) usable(method string) error {
	if s.err != nil {
		return s.err
	}
	if s.scale == nil {
		return &ScalerError{Method: method, Misuse: NotScaled}
	}
	return nil
}

// forget ends the iteration of all optimizers.
func (s *GradScaler) forget() {
	for _, p := range s.optimizers {
		p.drop()
	}
	s.optimizers = nil
}

func (p *progress) drop() {
	for _, t := range p.found {
		t.Release()
	}
	p.found = nil
}
