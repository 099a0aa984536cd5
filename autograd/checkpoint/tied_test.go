package checkpoint_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// What is shared is taken under each of its names, as by nn.Load.
func TestModule_TakesASharedParameterUnderAnyOfItsNames(t *testing.T) {
	layer := func(seed uint64) *nn.LinearLayer {
		l := nn.Linear(2, 2, nn.NoBias())
		require.NoError(t, l.To(host.Default(), nn.Seed(seed)))
		t.Cleanup(l.Release)
		return l
	}
	values := func(l *nn.LinearLayer) []float64 {
		v, err := l.Weight.Tensor().Float64s()
		require.NoError(t, err)
		return v
	}
	one, two, three, apart := layer(1), layer(2), layer(5), nn.Sequential(layer(3), layer(4))
	tied := nn.Sequential(one, one)
	for name, c := range map[string]struct {
		content map[string]*nn.LinearLayer
		want    *nn.LinearLayer
	}{
		"the first": {map[string]*nn.LinearLayer{"0.weight": two}, two},
		"the other": {map[string]*nn.LinearLayer{"1.weight": three}, three},
	} {
		content := checkpoint.Content{Tensors: map[string]*tensor.Tensor{}}
		for n, l := range c.content {
			copied, err := l.Weight.Tensor().Clone()
			require.NoError(t, err)
			defer copied.Release()
			content.Tensors[n] = copied
		}
		change, err := checkpoint.Module(tied).Prepare(content)
		require.NoError(t, err, name)
		require.NoError(t, change.Apply(), name)
		require.Equal(t, values(c.want), values(one), name)
	}
	var file bytes.Buffer
	require.NoError(t, checkpoint.New().Add("m", checkpoint.Module(apart)).Write(context.Background(), &file))
	require.NoError(t, checkpoint.New().Add("m", checkpoint.Module(tied)).Read(context.Background(), &file))
	last, ok := apart.At(1).(*nn.LinearLayer)
	require.True(t, ok)
	require.Equal(t, values(last), values(one), "of several the last in the file")
}
