package autograd_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/tensor"
)

func TestSecondDerivatives_AgreeWithFiniteDifferences(t *testing.T) {
	for _, c := range gradientCases {
		t.Run(strings.TrimSpace(c.op+" "+c.note), func(t *testing.T) {
			r := onHost(t)
			options := func() []autograd.Option {
				return []autograd.Option{autograd.WithAllocator(r.alloc), autograd.WithGenerator(tensor.NewGenerator(7))}
			}
			err := gradcheck.CheckGradGrad(r.dev, c.f, c.make(r), gradcheck.Graph(options))
			if errors.Is(err, autograd.ErrHigherOrder) {
				t.Skip(err)
			}
			require.NoError(t, err)
		})
	}
}
