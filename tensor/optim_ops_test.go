package tensor_test

import (
	"math"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// The steps of optimizers, and what is done to gradients before them. The result is the first input, changed.

func init() { register(optimOperations, optimSamples, optimRefusals) }

var optimOperations = map[string]operation{
	"SGDStep": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		l := lists(in, 1, 2)
		return steps.SGD(tensors{t}, l[0], l[1], training.SGD{LR: 0.1, Momentum: a.float(0), Nesterov: a.bool(1)}, guard{})
	}),
	"AdamStep": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		l := lists(in, 1, 4)
		return steps.Adam(tensors{t}, l[0], l[1], l[2], l[3], training.Adam{LR: 0.1, Beta1: 0.9, Beta2: 0.99, Eps: 1, Step: a.int(0)}, guard{})
	}),
	"RMSPropStep": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		l := lists(in, 1, 4)
		return steps.RMSProp(tensors{t}, l[0], l[1], l[2], l[3],
			training.RMSProp{LR: 0.1, Alpha: 0.9, Eps: 1, Momentum: a.float(0), Centered: a.bool(1)}, guard{})
	}),
	"AdagradStep": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		l := lists(in, 1, 2)
		return steps.Adagrad(tensors{t}, l[0], l[1], training.Adagrad{LR: 0.1, Eps: 1, Step: a.int(0)}, guard{})
	}),
	"LionStep": inPlace(func(t *tensor.Tensor, in tensors, _ args) error {
		l := lists(in, 1, 2)
		return steps.Lion(tensors{t}, l[0], l[1], training.Lion{LR: 0.1, Beta1: 0.9, Beta2: 0.99}, guard{})
	}),
	"GradNorm": func(in tensors, a args) (*tensor.Tensor, error) {
		if in[0] == nil { // a nil gradient is skipped, but has no Exec
			return in[0].Clone()
		}
		return steps.GradNorm(in[0].Exec(), in, a.float(len(a)-1)) // of the numbers for all operations the last is a norm
	},
	"ClipGradNorm": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return steps.ClipGradNorm(tensors{t}, in[1], a.float(0), false)
	}),
	"ClipGradValue": inPlace(func(t *tensor.Tensor, in tensors, a args) error {
		return steps.ClipGradValue(in[0].Exec(), append(tensors{t}, in[1:]...), a.float(0))
	}),
	"AmpUnscale": inPlace(func(t *tensor.Tensor, in tensors, _ args) error { return steps.Unscale(tensors{t}, in[1], in[2]) }),
	"CastMany": func(in tensors, _ args) (*tensor.Tensor, error) {
		if in[0] == nil {
			return in[0].Clone()
		}
		casts, err := steps.CastMany(in, tensor.BFloat16, in[0].Exec())
		if err != nil {
			return nil, err
		}
		var flat tensors
		defer func() {
			for _, c := range append(casts, flat...) {
				c.Release()
			}
		}()
		for _, c := range casts {
			f, err := c.Reshape(c.Len())
			if err != nil {
				return nil, err
			}
			flat = append(flat, f)
		}
		return tensor.Cat(flat, 0)
	},
	"AmpUpdateScale": inPlace(func(t *tensor.Tensor, in tensors, _ args) error {
		return steps.UpdateScale(t, in[1], in[2], 2, 0.5, 10)
	}),
}

var optimSamples = []sample{
	{"SGDStep", "float32[2 3] ~float32[3 2]", args{0.0, false}}, {"SGDStep", "float16[3] float32[3] float16[3]", args{0.9, true}},
	{"AdamStep", "float32[2 3] float32[2 3] float32[2 3] float32[2 3]", args{1.0}},
	{"AdamStep", "float64[3] float16[3] float64[3] float64[3] float64[3]", args{2.0}},
	{"RMSPropStep", "float32[2 3] ~float32[3 2] float32[2 3]", args{0.0, false}},
	{"RMSPropStep", "float32[3] float32[3] float32[3] float32[3] float32[3]", args{0.9, true}},
	{"AdagradStep", "float32[3] float32[3] float32[3]", args{1.0}}, {"LionStep", "bfloat16[3] float32[3] bfloat16[3]", nil},
	{"GradNorm", "float32[2 3] ~float32[3 2] float16[4]", args{2.0}}, {"GradNorm", "float32[2 3]", args{3.0}},
	{"ClipGradNorm", "~float32[2 3] float64[]", args{1.0}}, {"ClipGradValue", "float32[2 3] ~float64[3 2]", args{0.5}},
	{"CastMany", "float32[2 3] float32[] float32[5]", nil},
	{"AmpUnscale", "float16[2 3] float32[] float32[1]", nil}, {"AmpUpdateScale", "float32[] int32[1] float32[]", nil},
}

var optimRefusals = []refused{
	{sample{"SGDStep", "float32[2] float32[3]", args{0.0, false}}, "shape"},
	{sample{"SGDStep", "float32[2] int64[2]", args{0.0, false}}, "dtype"},
	{sample{"SGDStep", "float32[2] float32[2] float32[1]", args{0.9, false}}, "shape"},
	{sample{"SGDStep", "float32[2] float32[2] float16[2]", args{0.9, false}}, "dtype"},
	{sample{"SGDStep", "float32[2] float32[2]", args{0.9, false}}, "value"},
	{sample{"SGDStep", "float32[2] float32[2]", args{0.0, true}}, "value"},
	{sample{"AdamStep", "float32[2] float32[2] float32[2] float32[3]", args{1.0}}, "shape"},
	{sample{"AdamStep", "int32[2] float32[2] int32[2] int32[2]", args{1.0}}, "dtype"},
	{sample{"AdamStep", "float32[2] float32[2] float32[2] float32[2] float64[2]", args{1.0}}, "dtype"},
	{sample{"AdamStep", "float32[2] float32[2] float32[2] float32[2]", args{0.0}}, "value"},
	{sample{"AdamStep", "float32[2] float32[2] float32[2]", args{1.0}}, "value"},
	{sample{"RMSPropStep", "float32[2] float32[2] float32[2 1]", args{0.0, false}}, "shape"},
	{sample{"RMSPropStep", "float32[2] float32[2] float64[2]", args{0.0, false}}, "dtype"},
	{sample{"RMSPropStep", "float32[2] float32[2] float32[2]", args{0.9, false}}, "value"},
	{sample{"RMSPropStep", "float32[2 2] float32[2 2] ~float32[2 2]", args{0.0, false}}, "shape"},
	{sample{"AdagradStep", "float32[2] float32[1] float32[2]", args{1.0}}, "shape"},
	{sample{"AdagradStep", "float32[2] bool[2] float32[2]", args{1.0}}, "dtype"},
	{sample{"AdagradStep", "float32[2] float32[2] float32[2]", args{0.0}}, "value"},
	{sample{"LionStep", "float32[2] float32[2] float32[]", nil}, "shape"},
	{sample{"LionStep", "float32[2] float32[2] bfloat16[2]", nil}, "dtype"}, {sample{"LionStep", "float32[2] float32[2]", nil}, "value"},
	{sample{"GradNorm", "float32[2] int32[2]", args{2.0}}, "dtype"}, {sample{"GradNorm", "float32[2]", args{-1.0}}, "value"},
	{sample{"ClipGradNorm", "float32[2] float64[2]", args{1.0}}, "shape"}, {sample{"ClipGradNorm", "float32[2] float32[]", args{1.0}}, "dtype"},
	{sample{"ClipGradNorm", "uint8[2] float64[]", args{1.0}}, "dtype"},
	{sample{"ClipGradNorm", "float32[2] float64[]", args{math.NaN()}}, "value"},
	{sample{"ClipGradValue", "float32[2] bool[2]", args{1.0}}, "dtype"}, {sample{"ClipGradValue", "float32[2]", args{-1.0}}, "value"},
	{sample{"CastMany", "float32[2] ~float32[2 3]", nil}, "shape"}, {sample{"CastMany", "float32[2] float16[2]", nil}, "dtype"},
	{sample{"AmpUnscale", "float16[2] float32[2] float32[]", nil}, "shape"},
	{sample{"AmpUnscale", "int32[2] float32[] float32[]", nil}, "dtype"},
	{sample{"AmpUnscale", "float16[2] float32[] float64[]", nil}, "dtype"},
	{sample{"AmpUpdateScale", "float32[] int32[2] float32[]", nil}, "shape"},
	{sample{"AmpUpdateScale", "float32[] int64[] float32[]", nil}, "dtype"},
	{sample{"AmpUpdateScale", "float32[2] int32[] float32[]", nil}, "shape"},
	{sample{"AmpUpdateScale", "float16[] int32[] float32[]", nil}, "dtype"},
}

// lists makes a list of each input from i on, for functions that take as many lists of one tensor; missing ones are empty.
func lists(in tensors, i, count int) []tensors {
	all := make([]tensors, count)
	for k := range all {
		if i+k < len(in) {
			all[k] = in[i+k : i+k+1]
		}
	}
	return all
}
