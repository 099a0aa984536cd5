package checkpoint_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
)

func TestNil_SectionsAreErrors(t *testing.T) {
	var mismatch *checkpoint.MismatchError
	for name, s := range map[string]checkpoint.Section{
		"Value": checkpoint.Value[int](nil), "Generator": checkpoint.Generator(nil), "Optimizer": checkpoint.Optimizer(nil),
		"State": checkpoint.State[int](nil), "a nil schedule": checkpoint.State((*optim.Schedule)(nil)), "a nil section": nil,
		"a nil optimizer": checkpoint.Optimizer((*optim.Grouped)(nil)),
	} {
		require.ErrorAs(t, checkpoint.New().Add("it", s).Write(context.Background(), new(bytes.Buffer)), &mismatch, name)
	}
	for _, m := range []nn.Layer{nil, (*nn.LinearLayer)(nil)} {
		err := checkpoint.New().Add("it", checkpoint.Module(m)).Write(context.Background(), new(bytes.Buffer))
		require.ErrorAs(t, err, &mismatch)
		require.EqualError(t, err, "checkpoint: it: the module is nil")
	}
	require.NoError(t, new(checkpoint.Checkpoint).Add("step", checkpoint.Value(new(int))).WriteFile(context.Background(), filepath.Join(t.TempDir(), "x")))
}
