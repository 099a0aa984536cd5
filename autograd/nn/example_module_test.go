package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// VAE is a variational autoencoder: its passes have two results, and one input more in training.
type VAE struct {
	nn.Base
	Body         *nn.SequentialModule
	Mean, LogVar *nn.LinearLayer
	Decoder      []*nn.LinearLayer
}

func NewVAE(in, hidden, latent int) *VAE {
	return nn.New(&VAE{
		Body: nn.Sequential(nn.Linear(in, hidden), nn.ReLU()),
		Mean: nn.Linear(hidden, latent), LogVar: nn.Linear(hidden, latent),
		Decoder: []*nn.LinearLayer{nn.Linear(latent, hidden), nn.Linear(hidden, in)},
	})
}

// Encode gives mean and logarithm of the variance, [batch, latent].
func (m *VAE) Encode(x *autograd.Variable) (mean, logVar *autograd.Variable) {
	m.Scopes(x, func(g *autograd.Graph) []*autograd.Variable {
		h := m.Body.Forward(x)
		mean, logVar = m.Mean.Forward(h), m.LogVar.Forward(h)
		return []*autograd.Variable{mean, logVar}
	})
	return mean, logVar
}

// Decode gives the logits of an image, [batch, in].
func (m *VAE) Decode(z *autograd.Variable) *autograd.Variable {
	return m.Scope(z, func(g *autograd.Graph) *autograd.Variable {
		return m.Decoder[1].Forward(m.Decoder[0].Forward(z).ReLU())
	})
}

// A module has the methods that it needs; its parts are found in its fields.
func ExampleNew() {
	dev := host.Default()
	model := NewVAE(6, 4, 2)
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	for _, p := range nn.NamedParameters(model) {
		fmt.Println(p.Name, p.Parameter.Shape())
	}
	g := autograd.NewGraph(dev, autograd.WithGenerator(tensor.NewGenerator(2)))
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 3, 6) })
	mean, logVar := model.Encode(x)
	noise := g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.RandN(e, g.Generator(), tensor.Float32, 3, 2)
	})
	y := model.Decode(mean.Add(noise.Mul(logVar.MulScalar(0.5).Exp())))
	fmt.Println(y.Shape(), y.Sub(x).Square().Mean(nil, false).Backward())
	fmt.Println(model)
	// Output:
	// body.0.weight [4, 6]
	// body.0.bias [4]
	// mean.weight [2, 4]
	// mean.bias [2]
	// log_var.weight [2, 4]
	// log_var.bias [2]
	// decoder.0.weight [4, 2]
	// decoder.0.bias [4]
	// decoder.1.weight [6, 4]
	// decoder.1.bias [6]
	// [3, 6] <nil>
	// VAE(
	//   (body): Sequential(
	//     (0): Linear(in_features=6, out_features=4, bias=True)
	//     (1): ReLU()
	//   )
	//   (mean): Linear(in_features=4, out_features=2, bias=True)
	//   (log_var): Linear(in_features=4, out_features=2, bias=True)
	//   (decoder): ModuleList(
	//     (0): Linear(in_features=2, out_features=4, bias=True)
	//     (1): Linear(in_features=4, out_features=6, bias=True)
	//   )
	// )
}
