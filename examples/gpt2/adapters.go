package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// What the metadata of a file of adapters have besides.
const (
	rankKey  = "lora_rank"
	alphaKey = "lora_alpha"
)

// adapt freezes the model and puts adapters beside the projections to queries, keys and values, as peft does with GPT-2. They have values
// after To.
func (m *model) adapt(rank int, alpha float64) error {
	for _, p := range m.Parameters() {
		p.SetRequiresGrad(false)
	}
	for _, b := range m.Blocks {
		linear, ok := b.Attention.QKV.(*nn.LinearLayer)
		if !ok {
			return errors.New("the model has adapters already")
		}
		b.Attention.QKV = nn.LoRA(linear, rank, alpha)
	}
	return nil
}

// isAdapter reports whether a parameter of the model is one of an adapter.
func isAdapter(name string) bool { return strings.Contains(name, ".lora_") }

// adapters are the parameters that are trained.
func (m *model) adapters() (named []nn.Named, params []*autograd.Parameter) {
	for _, n := range nn.NamedParameters(m) {
		if isAdapter(n.Name) {
			named, params = append(named, n), append(params, n.Parameter)
		}
	}
	return named, params
}

// saveAdapters writes the adapters alone.
func (m *model) saveAdapters(file string, rank int, alpha float64) error {
	named, _ := m.adapters()
	entries := make([]safetensors.Entry, len(named))
	for i, n := range named {
		entries[i] = safetensors.Entry{Name: n.Name, Tensor: n.Parameter.Tensor()}
	}
	return safetensors.WriteFile(context.Background(), file, entries,
		map[string]string{rankKey: strconv.Itoa(rank), alphaKey: strconv.FormatFloat(alpha, 'g', -1, 64)})
}

// loadAdapters puts the adapters of a file into the model.
func (m *model) loadAdapters(file string, dev device.Device, dt tensor.DType) error {
	f, err := safetensors.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	rank, bad := strconv.Atoi(f.Metadata()[rankKey])
	alpha, badAlpha := strconv.ParseFloat(f.Metadata()[alphaKey], 64)
	if bad != nil || badAlpha != nil {
		return errors.Errorf("%s: its metadata have no %s and %s: it is no file of adapters", file, rankKey, alphaKey)
	}
	if err := m.adapt(rank, alpha); err != nil {
		return err
	}
	if err := m.To(dev, nn.Unset(), nn.DType(dt)); err != nil {
		return err
	}
	return nn.LoadFile(f, m, nn.Only(isAdapter))
}
