package session

import (
	"errors"
	"os"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// Held lists what models hold in memory: their parameters, and buffers such as running statistics.
func Held(models ...nn.Module) (all []*autograd.Parameter) {
	for _, m := range models {
		for _, n := range nn.NamedState(m) {
			all = append(all, n.Parameter)
		}
	}
	return all
}

// SaveWeights writes a model's weights to a file, unless that has no name.
func SaveWeights(file string, m nn.Module) (err error) {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return nn.Save(f, m)
}
