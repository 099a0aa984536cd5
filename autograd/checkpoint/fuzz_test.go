package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// FuzzRead reads anything. A file that is not sound, or another program's, changes nothing.
func FuzzRead(f *testing.F) {
	model := nn.Linear(2, 1, nn.WeightInit(nn.Ones))
	require.NoError(f, model.To(host.Default(), nn.Seed(1)))
	defer model.Release()
	opt := optim.Adam(model.Parameters())
	defer opt.Release()
	for _, p := range model.Parameters() {
		g, err := tensor.Ones(p.Tensor().Exec(), tensor.Float32, p.Shape()...)
		require.NoError(f, err)
		p.SetGrad(g)
	}
	require.NoError(f, opt.Step())
	step := 3
	c := checkpoint.New().Add("model", checkpoint.Module(model)).Add("optimizer", checkpoint.Optimizer(opt)).
		Add("step", checkpoint.Value(&step))
	write := func(t testing.TB) []byte {
		var file bytes.Buffer
		require.NoError(t, c.Write(context.Background(), &file))
		return file.Bytes()
	}
	good := write(f)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.Replace(good, []byte(`"F32"`), []byte(`"F64"`), 1))
	f.Add(bytes.Replace(good, []byte(`"shape":[1]`), []byte(`"shape":[9]`), 1))
	f.Add(bytes.Replace(good, []byte(`\"lr\":0.001`), []byte(`\"lr\":"abc"`), 1))
	f.Add(append(binary.LittleEndian.AppendUint64(nil, 2), "{}"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, c.Read(context.Background(), bytes.NewReader(good)))
		err := c.Read(context.Background(), bytes.NewReader(data))
		var unsound *checkpoint.FormatError
		var foreign *checkpoint.MismatchError
		if errors.As(err, &unsound) || errors.As(err, &foreign) {
			require.Equal(t, good, write(t))
		}
	})
}
