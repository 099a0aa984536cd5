package data_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func TestLoader_PrintsWhatItReads(t *testing.T) {
	e, alloc := newExec(t, host.New())
	dev := e.Device()
	on := "loader on " + dev.ID().String()
	l := data.NewLoader(dev, numbers(t, 5), 2, data.WithAllocator(alloc))
	require.Equal(t, on+": 5 examples in batches of 2", l.String())
	require.Equal(t, l.String(), fmt.Sprint(l))
	l = data.NewLoader(dev, numbers(t, 1), 2, data.WithAllocator(alloc), data.Shuffle(tensor.NewGenerator(1)), data.DropLast())
	require.Equal(t, on+": 1 example in batches of 2, shuffled, without a rest", l.String())
}

func TestLoader_PrintsWhyItCannotBeUsed(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	require.Equal(t, "loader (nil)", (*data.Loader)(nil).String())
	require.Equal(t, "loader (nil)", new(data.Loader).String())
	require.Equal(t, "loader, failed: data: there is no data set", data.NewLoader(dev, nil, 2).String())
	require.Equal(t, "loader, failed: data: batches of 0 examples", data.NewLoader(dev, numbers(t, 1), 0).String())
	require.Contains(t, data.NewLoader(nil, numbers(t, 1), 1).String(), "loader, failed: tensor: On: ")
	l := data.NewLoader(dev, endless{}, 16, data.Shuffle(tensor.NewGenerator(1)))
	for range l.Batches() {
		t.Fatal("a batch")
	}
	require.Contains(t, l.String(), " shuffled, failed: tensor: RandPerm: ")
}
