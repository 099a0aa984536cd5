package nn_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// tables has buffers of all kinds.
type tables struct {
	nn.Base
	Scale  *autograd.Parameter
	Mean   *autograd.Parameter   `nn:",buffer"`
	Cos    *autograd.Parameter   `nn:"cosines,nonpersistent"`
	Masks  []*autograd.Parameter `nn:",nonpersistent"`
	hidden *autograd.Parameter
}

func newTables() *tables {
	declare := func() *autograd.Parameter { return autograd.DeclareParameter("declared", nn.Ones, 2) }
	n := &tables{Scale: declare(), Mean: declare(), Cos: declare(), Masks: []*autograd.Parameter{declare()}, hidden: declare()}
	n.hidden.SetRequiresGrad(false)
	n.RegisterBufferField("hidden", &n.hidden, nn.NonPersistent())
	n.RegisterBuffer(autograd.DeclareParameter("first", nn.Ones, 2), nn.NonPersistent(), nil)
	n.RegisterBuffer(autograd.DeclareParameter("first", nn.Ones, 2), nn.NonPersistent())
	return nn.New(n)
}

func TestNonPersistentBuffers_AreMovedAndNotSaved(t *testing.T) {
	r := onHost(t)
	n := newTables()
	require.Equal(t, []string{"scale"}, names(nn.NamedParameters(n)))
	require.Equal(t, []string{"hidden", "first", "mean", "cosines", "masks.0"}, names(nn.NamedBuffers(n)))
	require.Equal(t, []string{"scale", "mean"}, names(nn.NamedState(n)))
	require.Equal(t, []string{"scale", "mean"}, names(nn.AllNamedState(n)))
	require.Len(t, n.OwnBuffers(), 4)
	require.Len(t, n.Buffers(), 5)
	r.place(n)
	require.EqualValues(t, 6*512, r.allocated())
	for _, p := range n.Buffers() {
		require.False(t, p.RequiresGrad())
	}
	var file, run bytes.Buffer
	require.NoError(t, nn.Save(&file, n))
	require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(n)).Write(context.Background(), &run))
	for _, p := range append(n.Buffers(), n.Scale) {
		require.NoError(t, p.Tensor().FillInPlace(3))
	}
	check := func() {
		require.Equal(t, []float64{1, 1}, valuesOf(t, n.Mean))
		require.Equal(t, []float64{3, 3}, valuesOf(t, n.Cos), "what is not in the file stays")
		require.Equal(t, []float64{3, 3}, valuesOf(t, n.Masks[0]))
	}
	require.NoError(t, nn.Load(&file, n))
	check()
	require.NoError(t, n.Mean.Tensor().FillInPlace(3))
	require.NoError(t, checkpoint.New().Add("model", checkpoint.Module(n)).Read(context.Background(), &run))
	check()

	c, err := nn.Clone(n)
	require.NoError(t, err)
	require.Equal(t, []float64{3, 3}, valuesOf(t, c.Cos))
	require.EqualValues(t, 12*512, r.allocated())
	require.Equal(t, names(nn.NamedState(n)), names(nn.NamedState(c)))
	c.Release()

	g := r.graph()
	defer g.Release()
	v := nn.WithParameters(g, n, map[string]*autograd.Variable{"cosines": g.Full(7, tensor.Float32, 2)}, func() *autograd.Variable { return g.Param(n.Cos) })
	f, err := v.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{7, 7}, f)
}

func TestTagsOfBuffers_ThatCannotBeAreErrors(t *testing.T) {
	r := onHost(t)
	var bad *nn.ArgumentError
	err := nn.New(&struct {
		nn.Base
		Cos *autograd.Parameter `nn:"cos,persistent"`
	}{}).To(r.dev)
	require.ErrorAs(t, err, &bad)
	require.EqualError(t, err, `nn: field Cos: its tag "cos,persistent" has the option "persistent"; there are buffer and nonpersistent`)
	err = nn.New(&struct {
		nn.Base
		FC *nn.LinearLayer `nn:",buffer"`
	}{}).To(r.dev)
	require.EqualError(t, err, `nn: field FC: its tag ",buffer" is for parameters; the field is a *nn.LinearLayer`)
}
