package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// fuzzed is a small state of every kind.
type fuzzed struct {
	alloc *memory.Caching
	all   *checkpoint.Checkpoint
}

func newFuzzed(t testing.TB) *fuzzed {
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	model := nn.Linear(2, 1, nn.WeightInit(nn.Ones))
	require.NoError(t, model.To(dev, nn.Seed(1), nn.WithAllocator(alloc)))
	adam := optim.Adam(model.Parameters()[:1])
	sgd := optim.SGD(model.Parameters()[1:], optim.Momentum(0.9))
	for _, p := range model.Parameters() {
		g, err := tensor.Ones(p.Tensor().Exec(), tensor.Float32, p.Shape()...)
		require.NoError(t, err)
		require.NoError(t, p.SetGrad(g))
	}
	require.NoError(t, adam.Step())
	require.NoError(t, sgd.Step())
	return &fuzzed{alloc: alloc, all: checkpoint.New().
		Add("model", checkpoint.Module(model)).Add("adam", checkpoint.Optimizer(adam)).Add("sgd", checkpoint.Optimizer(sgd)).
		Add("schedule", checkpoint.State(optim.OneCycleLR(sgd, []float64{1}, 10))).
		Add("plateau", checkpoint.State(optim.ReduceLROnPlateau(adam))).
		Add("generator", checkpoint.Generator(tensor.NewGenerator(1))).Add("value", checkpoint.Value(&best{Loss: 1}))}
}

func (s *fuzzed) write(t testing.TB) []byte {
	var file bytes.Buffer
	require.NoError(t, s.all.Write(context.Background(), &file))
	return file.Bytes()
}

func (s *fuzzed) read(file []byte) error {
	return s.all.Read(context.Background(), bytes.NewReader(file))
}

// open makes a checkpoint one without a checksum, which a fuzzer can change.
func open(file []byte) []byte {
	file = bytes.Replace(file, []byte("cistern."), []byte("another."), 2)
	return bytes.Replace(file, []byte(`"version":"2"`), []byte(`"version":"1"`), 1)
}

// FuzzRead reads anything. What is refused changes nothing in any section, takes no more memory than it is long, and keeps none; what is
// read is written and reads again to the same.
func FuzzRead(f *testing.F) {
	s := newFuzzed(f)
	good := s.write(f)
	f.Add(good)
	f.Add(open(good))
	f.Add(open(good)[:len(good)/2])
	for _, r := range [][2]string{
		{`"F32"`, `"F64"`}, {`"shape":[1]`, `"shape":[9]`}, {`\"lr\":0.001`, `\"lr\":"abc"`}, {`\"lr\":0.001`, `\"lr\":-1000`},
		{`\"betas\":[0.9`, `\"betas\":[nil`}, {`\"seed\":1`, `\"seed\":-`}, {`\"last_epoch\":0`, `\"last_epoch\":9`}, {`\"best\":null`, `\"best\":1e99`},
		{`{\"loss\":1`, `{\"loss\":null`}, {`"sgd.state.0`, `"sgd.state.1`}, {`"section.value"`, `"section.velue"`},
	} {
		f.Add(bytes.Replace(open(good), []byte(r[0]), []byte(r[1]), 1))
	}
	f.Add(append(binary.LittleEndian.AppendUint64(nil, 2), "{}"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, s.read(good))
		held := s.alloc.Stats().AllocatedBytes.All.Current
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := s.read(data)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+200*len(data)), "%d bytes of input", len(data))
		if err != nil {
			sectionOf(t, err) // it has a type
			require.Equal(t, good, s.write(t))
		} else {
			saved := s.write(t)
			require.NoError(t, s.read(good))
			require.NoError(t, s.read(saved))
			require.Equal(t, saved, s.write(t))
			require.NoError(t, s.read(good))
		}
		require.Equal(t, held, s.alloc.Stats().AllocatedBytes.All.Current)
	})
}

// FuzzValue reads any text into a value. What is read is written and reads again to the same.
func FuzzValue(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `{"loss":1,"history":[1,2],"by_name":{"a":1},"ByStep":{"1":2},"Any":[{"x":null}],"Pair":[1,2,3],"Inner":{"Deep":1}}`,
		`{"cistern.nonfinite":[{"path":["loss"],"value":"NaN"},{"path":["Any","0"],"value":"-Inf"}],"value":{"Any":[1]}}`,
		`{"cistern.nonfinite":[{"path":["Inner","Deep"],"value":"+Inf"},{"path":["ByStep","1"],"value":"Inf"}],"value":{"Inner":{"Deep":0},"ByStep":{"1":0}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v best
		s := checkpoint.Value(&v)
		if err := prepare(s, text); err != nil {
			require.Zero(t, v)
			return
		}
		saved, err := s.Save()
		require.NoError(t, err)
		v = best{}
		require.NoError(t, prepare(s, string(saved.JSON)))
		again, err := s.Save()
		require.NoError(t, err)
		require.Equal(t, string(saved.JSON), string(again.JSON))
	})
}
