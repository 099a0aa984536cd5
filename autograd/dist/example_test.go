package dist_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/dist"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// REINFORCE: a policy learns which of three arms pays most, from rewards of the arms that it has tried.
func ExampleCategorical_reinforce() {
	dev := host.Default()
	policy := nn.Linear(1, 3)
	if err := policy.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer policy.Release()
	opt := optim.Adam(policy.Parameters(), optim.LR(0.1))
	defer opt.Release()
	noise := tensor.NewGenerator(1)
	pays := []float32{0, 0.2, 1}

	step := func() error {
		g := autograd.NewGraph(dev, autograd.WithGenerator(noise))
		defer g.Release()
		d := dist.NewCategorical(policy.Forward(g.Ones(tensor.Float32, 16, 1)))
		actions := d.Sample()
		rewards := autograd.FromSlice(g, pays, len(pays)).IndexSelect(0, actions)
		advantage := rewards.Sub(rewards.Mean(nil, true))
		loss := d.LogProb(actions).Mul(advantage).Mean(nil, false).Neg()
		if err := loss.Backward(); err != nil {
			return err
		}
		defer opt.ZeroGrad()
		return opt.Step()
	}
	for range 100 {
		if err := step(); err != nil {
			log.Fatal(err)
		}
	}

	g := autograd.NewGraph(dev, autograd.NoGrad())
	defer g.Release()
	probs, err := dist.NewCategorical(policy.Forward(g.Ones(tensor.Float32, 1, 1))).Probs().Float64s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the third arm nearly always:", probs[2] > 0.9)
	// Output: the third arm nearly always: true
}

// A variational autoencoder: RSample lets gradients through the code, and KL keeps it near the prior.
func ExampleNormal_autoencoder() {
	dev := host.Default()
	encoder, decoder := nn.Linear(4, 4), nn.Linear(2, 4)
	model := nn.Sequential(encoder, decoder) // for its parameters
	if err := model.To(dev, nn.Seed(2)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.Adam(model.Parameters(), optim.LR(0.02))
	defer opt.Release()
	noise := tensor.NewGenerator(1)

	step := func() (float64, error) {
		g := autograd.NewGraph(dev, autograd.WithGenerator(noise))
		defer g.Release()
		x := g.Eye(tensor.Float32, 4)
		parts := encoder.Forward(x).Chunk(2, 1)
		code := dist.NewIndependent(dist.NewNormal(parts[0], parts[1].Exp()), 1)
		prior := dist.NewIndependent(dist.NewNormal(g.Zeros(tensor.Float32, 2), g.Ones(tensor.Float32)), 1)
		pixels := dist.NewIndependent(dist.NewBernoulli(decoder.Forward(code.RSample())), 1)
		loss := dist.KL(code, prior).Sub(pixels.LogProb(x)).Mean(nil, false)
		if err := loss.Backward(); err != nil {
			return 0, err
		}
		defer opt.ZeroGrad()
		if err := opt.Step(); err != nil {
			return 0, err
		}
		return loss.Item()
	}
	var first, last float64
	for i := range 400 {
		loss, err := step()
		if err != nil {
			log.Fatal(err)
		}
		if i < 20 {
			first += loss / 20
		}
		if i >= 380 {
			last += loss / 20
		}
	}
	fmt.Println("the bound has improved:", last < first-0.5)
	// Output: the bound has improved: true
}
