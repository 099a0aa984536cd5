package nn

import (
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/autograd"
)

// LoRALayer is a Linear that is not trained, and beside it a product of two narrow ones that is (Hu et al., "LoRA: Low-rank adaptation of
// large language models", 2021): BaseLayer(x) + scale * B(A(x)), with the scale alpha / rank. Parameters have the names that they have in
// Hugging Face's peft: "base_layer.weight", "lora_A.weight", "lora_B.weight".
type LoRALayer struct {
	Base
	BaseLayer *LinearLayer `nn:"base_layer"`
	A         *LinearLayer `nn:"lora_A"` // from in to rank
	B         *LinearLayer `nn:"lora_B"` // from rank to out

	rank  int
	alpha float64
}

// LoRA puts an adapter of a rank beside a Linear, whose parameters it freezes (SetRequiresGrad). A starts as the weight of a Linear does,
// and B with zeros, so that at first the result is that of the Linear. To on the model gives A and B their values also where the Linear
// has its own already:
//
//	block.Query = nn.LoRA(block.Query, 8, 16) // a field of type nn.Layer holds both
//	err := model.To(dev)
//
// A rank below 1, an alpha that is not a number, and a nil Linear are an *ArgumentError of To and Forward.
func LoRA(linear *LinearLayer, rank int, alpha float64) *LoRALayer {
	l := &LoRALayer{BaseLayer: linear, rank: rank, alpha: alpha}
	switch {
	case linear == nil:
		l.mistaken(argumentErr("LoRA", "the linear layer is nil"))
		linear = Linear(1, 1)
	case rank < 1:
		l.mistaken(argumentErr("LoRA", "the rank is %d; it must be at least 1", rank))
		rank = 1
	case math.IsNaN(alpha) || math.IsInf(alpha, 0):
		l.mistaken(argumentErr("LoRA", "alpha is %v", alpha))
	}
	linear.Weight.SetRequiresGrad(false)
	linear.Bias.SetRequiresGrad(false)
	l.A = Linear(size(linear.Weight, 1), rank, NoBias())
	l.B = Linear(rank, size(linear.Weight, 0), NoBias(), WeightInit(Zeros))
	RegisterField(&l.Base, "base_layer", &l.BaseLayer)
	RegisterField(&l.Base, "lora_A", &l.A)
	RegisterField(&l.Base, "lora_B", &l.B)
	return l
}

// Forward implements Layer.
func (l *LoRALayer) Forward(x *autograd.Variable) *autograd.Variable {
	return within(l, x, func(g *autograd.Graph) *autograd.Variable {
		if err := l.mistake(); err != nil {
			return g.Refuse("lora", err, x)
		}
		beside := g.Scope(func() *autograd.Variable { return l.B.Forward(l.A.Forward(x)).MulScalar(l.alpha / float64(l.rank)) })
		return l.BaseLayer.Forward(x).Add(beside)
	})
}

// String is a line of what the layer is.
func (l *LoRALayer) String() string {
	if l == nil {
		return "nil"
	}
	return fmt.Sprintf("LoRA(%v, rank=%d, alpha=%v)", l.BaseLayer, l.rank, l.alpha)
}
