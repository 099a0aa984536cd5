package nn_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
)

// saved is the file of a model.
func saved(t *testing.T, m nn.Layer) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, m))
	return file.Bytes()
}

func TestLoad_InPart_TakesWhatBothHaveAndListsTheRest(t *testing.T) {
	r := onHost(t)
	old := nn.Sequential(nn.Linear(2, 3, nn.WeightInit(nn.Constant(5))), nn.ReLU(), nn.Linear(3, 1))
	model := nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Identity(), nn.Linear(3, 4, nn.WeightInit(nn.Constant(7))))
	r.place(old)
	r.place(model)
	file := saved(t, old)
	for name, reader := range map[string]func() io.Reader{
		"twice":  func() io.Reader { return bytes.NewReader(file) },
		"staged": func() io.Reader { return bytes.NewBuffer(file) },
	} {
		model.Release()
		r.place(model)
		left := nn.Unmatched{Missing: []string{"of before"}}
		var differ *nn.MismatchError
		require.ErrorAs(t, nn.Load(reader(), model), &differ, name)
		require.NoError(t, nn.Load(reader(), model, nil, nn.Partial(&left)), name)
		require.Equal(t, nn.Unmatched{Missing: []string{"3.weight", "3.bias"}, Unexpected: []string{"2.weight", "2.bias"}}, left)
		require.Equal(t, []float64{5, 5, 5, 5, 5, 5}, valuesOf(t, model.Parameters()[0]))
		require.InDelta(t, 7, valuesOf(t, model.Parameters()[2])[0], 0, "what the file has not stays")
		require.NoError(t, nn.Load(reader(), model, nn.Partial(nil)))
		require.NoError(t, nn.Load(reader(), old, nn.Partial(&left)))
		require.Empty(t, left, "nothing")
	}
}

func TestLoad_InPart_RefusesOtherShapesAndFilesOfNothingThatTheModelHas(t *testing.T) {
	r := onHost(t)
	old, other, wrapped := nn.Sequential(nn.Linear(2, 3)), nn.Sequential(nn.Linear(2, 4)), nn.Sequential(nn.Sequential(nn.Linear(2, 3)))
	r.place(old)
	r.place(other)
	r.place(wrapped)
	file := saved(t, old)
	left := nn.Unmatched{Missing: []string{"of before"}}
	var differ *nn.MismatchError
	require.ErrorAs(t, nn.Load(bytes.NewReader(file), other, nn.Partial(&left)), &differ)
	require.Len(t, differ.Shapes, 2)
	require.ErrorAs(t, nn.Load(bytes.NewReader(file), wrapped, nn.Partial(&left)), &differ)
	require.Len(t, differ.Unexpected, 2)
	require.Equal(t, []string{"of before"}, left.Missing, "an error changes nothing")
	file[len(file)-1]++
	before := valuesOf(t, old.Parameters()[0])
	var damaged *nn.FormatError
	require.ErrorAs(t, nn.Load(bytes.NewReader(file), old, nn.Partial(&left)), &damaged)
	require.Equal(t, before, valuesOf(t, old.Parameters()[0]))
}
