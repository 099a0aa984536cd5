package nn_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// os.Open returns a nil *os.File beside its error, which is no nil io.Reader.
func TestLoadAndSave_OfANilPointer_AreArgumentErrors(t *testing.T) {
	m := nn.Linear(2, 1)
	require.NoError(t, m.To(host.Default(), nn.Seed(1)))
	t.Cleanup(m.Release)
	var bad *nn.ArgumentError
	require.ErrorAs(t, nn.Load((*os.File)(nil), m), &bad)
	require.Equal(t, nn.ArgumentError{What: "Load", Detail: "the reader is a nil *os.File"}, *bad)
	require.ErrorAs(t, nn.Save((*os.File)(nil), m), &bad)
	require.Equal(t, nn.ArgumentError{What: "Save", Detail: "the writer is a nil *os.File"}, *bad)
	require.ErrorAs(t, nn.Load((*bytes.Buffer)(nil), m), &bad)
	require.ErrorAs(t, nn.Save((*bytes.Buffer)(nil), m), &bad)
}
