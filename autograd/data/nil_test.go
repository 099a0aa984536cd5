package data_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// endless is a data set of more examples than anybody can number.
type endless struct{ data.Dataset }

func (endless) Len() int { return 1 << 62 }

// missing is a data set that counts wrongly.
type missing struct{ data.Dataset }

func (missing) Len() int { return -3 }

func TestLoader_OfNothing(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	var bad *data.ArgumentError
	for name, l := range map[string]*data.Loader{
		"nil data set": data.NewLoader(dev, nil, 4, nil), "batches of none": data.NewLoader(dev, endless{}, 0),
		"a nil pointer": data.NewLoader(dev, (*endless)(nil), 1), "no tensors": data.NewLoader(dev, data.Tensors(nil, nil), 2),
		"targets only":  data.NewLoader(dev, data.Tensors(nil, new(tensor.Tensor)), 2),
		"a zero tensor": data.NewLoader(dev, data.Tensors(new(tensor.Tensor), nil), 2),
	} {
		for range l.Batches() {
			t.Fatal("a batch")
		}
		require.ErrorAs(t, l.Err(), &bad, name)
		require.Zero(t, l.Len())
	}
	for _, batch := range []int{1 << 29, 1 << 62} {
		l := data.NewLoader(dev, endless{}, batch)
		require.Equal(t, 1<<62/batch, l.Len())
		for range l.Batches() {
			t.Fatal("a batch")
		}
		require.ErrorAs(t, l.Err(), &bad)
		require.ErrorContains(t, l.Err(), "of which there are 4611686018427387904")
	}
	l := data.NewLoader(dev, endless{}, 2, data.Shuffle(nil))
	for range l.Batches() {
		t.Fatal("a batch, in the data set's order")
	}
	require.EqualError(t, l.Err(), "data: Shuffle was given no generator: it is nil")
	l = data.NewLoader(dev, missing{}, 2)
	require.Zero(t, l.Len())
	for range l.Batches() {
		t.Fatal("a batch")
	}
	require.EqualError(t, l.Err(), "data: Len of the data set returned -3")
	l = data.NewLoader(dev, endless{}, 16, data.Shuffle(tensor.NewGenerator(1)))
	for range l.Batches() {
		t.Fatal("a batch")
	}
	var value *tensor.ValueError
	require.ErrorAs(t, l.Err(), &value)

	_, err := data.Slices([]float32{1, 2}, []int{1 << 32, 1 << 32}, []int64{1}, nil)
	require.ErrorAs(t, err, &bad)
}
