package training

import "github.com/cistern-ml/cistern/device"

// SGD are the settings of a step of stochastic gradient descent, under torch.optim.SGD's names.
type SGD struct {
	LR          float64
	Momentum    float64
	Dampening   float64
	WeightDecay float64
	Nesterov    bool
	Maximize    bool
	First       bool // the momentum buffers are undefined yet and start as the gradients
}

// Scalars are the settings that are numbers, as the operation has them.
func (s SGD) Scalars() [8]float64 { return [8]float64{s.LR, s.Momentum, s.WeightDecay, s.Dampening} }

// Adam are the settings of a step of Adam or AdamW, under torch.optim.Adam's names.
type Adam struct {
	LR          float64
	Beta1       float64
	Beta2       float64
	Eps         float64
	WeightDecay float64
	Step        int  // number of this step, 1 for the first
	Decoupled   bool // AdamW: weight decay acts on the parameters, not on the gradients
	Maximize    bool
}

// Scalars are the settings that are numbers, as the operation has them.
func (s Adam) Scalars() [8]float64 {
	return [8]float64{s.LR, s.Beta1, s.Beta2, s.Eps, s.WeightDecay, float64(s.Step)}
}

// RMSProp are the settings of a step of RMSprop, under torch.optim.RMSprop's names.
type RMSProp struct {
	LR          float64
	Alpha       float64
	Eps         float64
	WeightDecay float64
	Momentum    float64
	Centered    bool
	Maximize    bool
}

// Scalars are the settings that are numbers, as the operation has them.
func (s RMSProp) Scalars() [8]float64 {
	return [8]float64{s.LR, s.Alpha, s.Eps, s.WeightDecay, s.Momentum}
}

// Adagrad are the settings of a step of Adagrad, under torch.optim.Adagrad's names.
type Adagrad struct {
	LR          float64
	LRDecay     float64
	Eps         float64
	WeightDecay float64
	Step        int // number of this step, 1 for the first
	Maximize    bool
}

// Scalars are the settings that are numbers, as the operation has them.
func (s Adagrad) Scalars() [8]float64 {
	return [8]float64{s.LR, s.LRDecay, s.Eps, s.WeightDecay, float64(s.Step)}
}

// Lion are the settings of a step of Lion.
type Lion struct {
	LR           float64
	Beta1, Beta2 float64
	WeightDecay  float64
	Maximize     bool
}

// Scalars are the settings that are numbers, as the operation has them.
func (s Lion) Scalars() [8]float64 { return [8]float64{s.LR, s.Beta1, s.Beta2, s.WeightDecay} }

// Guard is what a step of an optimizer takes from the device, so that nobody has to wait for it. The zero Guard takes nothing. What
// there is must be on the device of all parameters. T is *tensor.Tensor, which this package cannot name.
type Guard[T any] struct {
	// Scale has one float32. Gradients are divided by it first, by multiplying with its reciprocal in the type of computation.
	Scale T
	// Found has one float32. If it is not 0, nothing changes.
	Found T
	// Counts are the steps that each parameter has taken, one int64 each. They rise by one, and take the place of Step and First.
	Counts []T
	// Settings are the address of what Scalars of the settings gives: numbers that take their place, 0 for none. There are counts then, if the step
	// depends on how many were taken. The memory is not the step's.
	Settings device.Ptr
}
