package checkpoint_test

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
)

type Outer struct {
	*Inner
	X float64
}

type Inner struct {
	*Outer
	Y int
}

// Two structs that embed each other have no end of fields; JSON takes those of each once.
func TestValue_OfStructsThatEmbedEachOther(t *testing.T) {
	v := Outer{X: math.Inf(1), Inner: &Inner{Y: 2}}
	var c checkpoint.Checkpoint
	c.Add("v", checkpoint.Value(&v))
	var file bytes.Buffer
	require.NoError(t, c.Write(context.Background(), &file))
	v = Outer{}
	require.NoError(t, c.Read(context.Background(), &file))
	require.Equal(t, math.Inf(1), v.X)
	require.Equal(t, 2, v.Inner.Y)
}
