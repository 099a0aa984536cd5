package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// scaler stands for amp.GradScaler, which this package must not import: its state and how it changes.
type scaler struct{ Scale, Tracker float64 }

func (s *scaler) State() (scaler, error)    { return *s, nil }
func (s *scaler) LoadState(st scaler) error { *s = st; return nil }

// CheckState refuses what amp.GradScaler's does.
func (s *scaler) CheckState(st scaler) error {
	if !(st.Scale > 0) {
		return fmt.Errorf("a scale of %v", st.Scale)
	}
	return nil
}

// broken is an object whose methods fail.
type broken struct{ state, check, load error }

func (b broken) State() (int, error)  { return 0, b.state }
func (b broken) CheckState(int) error { return b.check }
func (b broken) LoadState(int) error  { return b.load }

// run is a training run.
type run struct {
	t        *testing.T
	dev      *host.Device
	alloc    *memory.Caching
	exec     tensor.Exec
	model    *nn.SequentialModule
	opt      *optim.Grouped
	schedule *optim.Schedule
	plateau  *optim.PlateauSchedule
	scaler   *scaler
	gen      *tensor.Generator
	step     int
}

func newRun(t *testing.T, seed uint64, dt tensor.DType, make func(ps []*autograd.Parameter) *optim.Grouped) *run {
	t.Helper()
	r := &run{t: t, dev: host.New(), scaler: &scaler{Scale: 65536}, gen: tensor.NewGenerator(seed)}
	var err error
	r.alloc, err = memory.New(r.dev, memory.Config{})
	require.NoError(t, err)
	r.exec, err = tensor.On(r.dev, tensor.WithAllocator(r.alloc))
	require.NoError(t, err)
	r.model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 2))
	require.NoError(t, r.model.To(r.dev, nn.WithGenerator(r.gen), nn.WithAllocator(r.alloc), nn.DType(dt)))
	ps := r.model.Parameters()
	r.opt = make(ps)
	r.schedule = optim.SequentialLR(r.opt, []*optim.Schedule{optim.LinearLR(r.opt, 0.1, 1, 3), optim.CosineAnnealingLR(r.opt, 9, 0)}, []int{3})
	r.plateau = optim.ReduceLROnPlateau(optim.SGD(nil), optim.Patience(1))
	t.Cleanup(func() {
		r.opt.Release()
		r.model.Release()
		require.Zero(t, r.alloc.Stats().AllocatedBytes.All.Current)
		require.NoError(t, r.alloc.Close())
		require.NoError(t, r.dev.Close())
	})
	return r
}

func (r *run) checkpoint() *checkpoint.Checkpoint {
	return checkpoint.New().
		Add("model", checkpoint.Module(r.model)).
		Add("optimizer", checkpoint.Optimizer(r.opt)).
		Add("schedule", checkpoint.State(r.schedule)).
		Add("plateau", checkpoint.State(r.plateau)).
		Add("scaler", checkpoint.State(r.scaler)).
		Add("generator", checkpoint.Generator(r.gen)).
		Add("step", checkpoint.Value(&r.step))
}

// train takes n steps, on data that the generator draws.
func (r *run) train(n int) {
	r.t.Helper()
	for range n {
		g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.WithGenerator(r.gen))
		dt := r.model.Parameters()[0].Tensor().DType()
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.RandN(e, r.gen, dt, 5, 4) })
		y := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.RandN(e, r.gen, dt, 5, 2) })
		loss := r.model.Forward(x).MSELoss(y, autograd.MeanReduction)
		require.NoError(r.t, loss.Backward())
		value, err := loss.Item()
		require.NoError(r.t, err)
		g.Release()
		require.NoError(r.t, optim.ClipGradNormAsync(r.model.Parameters(), 0.5))
		require.NoError(r.t, r.opt.Step())
		r.opt.ZeroGrad()
		require.NoError(r.t, r.schedule.Step())
		require.NoError(r.t, r.plateau.Step(value))
		r.scaler.Scale *= 2
		r.scaler.Tracker++
		r.step++
	}
}

// bytes is everything that a run has.
func (r *run) bytes() []byte {
	r.t.Helper()
	var file bytes.Buffer
	require.NoError(r.t, r.checkpoint().Write(context.Background(), &file))
	return file.Bytes()
}

var optimizers = map[string]func(ps []*autograd.Parameter) *optim.Grouped{
	"adamw groups": func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.AdamW(ps[:2], optim.LR(0.01)).AddGroup(ps[2:], optim.LR(0.02), optim.WeightDecay(0))
	},
	"amsgrad": func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adam(ps, optim.AMSGrad()) },
	"sgd": func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.SGD(ps, optim.Momentum(0.9), optim.Nesterov())
	},
	"plain": func(ps []*autograd.Parameter) *optim.Grouped { return optim.SGD(ps) },
	"rmsprop": func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.RMSprop(ps, optim.Centered(), optim.Momentum(0.5))
	},
	"adagrad": func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adagrad(ps, optim.LRDecay(0.1)) },
	"nadam":   func(ps []*autograd.Parameter) *optim.Grouped { return optim.NAdam(ps, optim.LR(0.01)) },
	"rprop":   func(ps []*autograd.Parameter) *optim.Grouped { return optim.Rprop(ps) },
	"lion":    func(ps []*autograd.Parameter) *optim.Grouped { return optim.Lion(ps, optim.LR(0.01)) },
}

func TestTraining_GoesOnBitForBit(t *testing.T) {
	const n = 4
	for name, make := range optimizers {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			t.Run(fmt.Sprint(name, " ", dt), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "run.safetensors")
				whole := newRun(t, 1, dt, make)
				whole.train(2 * n)

				first := newRun(t, 1, dt, make)
				first.train(n)
				require.NoError(t, first.checkpoint().WriteFile(context.Background(), path))
				second := newRun(t, 99, dt, make)
				require.NoError(t, second.checkpoint().ReadFile(context.Background(), path))
				require.Equal(t, first.bytes(), second.bytes())
				second.train(n)
				require.Equal(t, 2*n, second.step)
				require.Equal(t, whole.bytes(), second.bytes())
				require.NotEqual(t, first.bytes(), second.bytes())
			})
		}
	}
}

func TestWriteFile_ReplacesTheFileWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.safetensors")
	r := newRun(t, 1, tensor.Float32, optimizers["sgd"])
	require.NoError(t, r.checkpoint().WriteFile(context.Background(), path))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	r.train(1)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, r.checkpoint().WriteFile(ctx, path), context.Canceled)
	boom := errors.New("boom")
	failing := r.checkpoint().Add("broken", checkpoint.State(broken{state: boom}))
	require.ErrorIs(t, failing.WriteFile(context.Background(), path), boom)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing is left of the attempts")

	require.NoError(t, r.checkpoint().WriteFile(context.Background(), path))
	after, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, r.bytes(), after)
	require.ErrorIs(t, r.checkpoint().WriteFile(context.Background(), filepath.Join(dir, "absent", "x")), os.ErrNotExist)
	require.ErrorIs(t, r.checkpoint().ReadFile(context.Background(), filepath.Join(dir, "absent")), os.ErrNotExist)
}

func TestRead_OfAFileThatIsCutShort_ChangesNothing(t *testing.T) {
	a, b := newRun(t, 1, tensor.Float32, optimizers["adamw groups"]), newRun(t, 2, tensor.Float32, optimizers["adamw groups"])
	a.train(1)
	whole, before := a.bytes(), b.bytes()
	header := 8 + int(binary.LittleEndian.Uint64(whole))
	for _, n := range []int{0, 3, 8, 9, header - 1, header, header + 1, (header + len(whole)) / 2, len(whole) - 1} {
		err := b.checkpoint().Read(context.Background(), bytes.NewReader(whole[:n]))
		var bad *checkpoint.FormatError
		require.ErrorAs(t, err, &bad, "%d of %d bytes", n, len(whole))
		require.Equal(t, before, b.bytes())
	}
	var bad *checkpoint.FormatError
	require.ErrorAs(t, b.checkpoint().Read(context.Background(), bytes.NewReader(append(whole[:len(whole):len(whole)], 0))), &bad)
	require.Equal(t, before, b.bytes())
	require.NoError(t, b.checkpoint().Read(context.Background(), bytes.NewReader(whole)))
	require.Equal(t, whole, b.bytes())
}

func TestRead_OfForeignFiles_SaysWhatTheyAre(t *testing.T) {
	r := newRun(t, 1, tensor.Float32, optimizers["sgd"])
	var model bytes.Buffer
	require.NoError(t, nn.Save(&model, r.model))
	file := func(header string) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	}
	for name, content := range map[string][]byte{
		"a model":         model.Bytes(),
		"text":            []byte("Gallia est omnis divisa in partes tres"),
		"no JSON":         file("{,}"),
		"wrong metadata":  file(`{"__metadata__": 3}`),
		"another version": file(`{"__metadata__": {"format": "cistern-checkpoint", "version": "7"}}`),
		"a wrong type":    file(`{"x": {"dtype": "F8", "shape": [0], "data_offsets": [0, 0]}}`),
		"a wrong place":   file(`{"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}`),
		"a huge shape":    file(`{"x": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 8]}}`),
		"a long tensor":   file(`{"x": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4000000000000]}}`),
		"a wrong entry":   file(`{"x": 3}`),
		"no section":      file(`{"__metadata__": {"format": "cistern-checkpoint", "version": "1"}, "x.y": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}`),
	} {
		var bad *checkpoint.FormatError
		require.ErrorAs(t, r.checkpoint().Read(context.Background(), bytes.NewReader(content)), &bad, name)
	}
}

func TestRead_OfAnotherProgramsCheckpoint_ChangesNothing(t *testing.T) {
	a, b := newRun(t, 1, tensor.Float32, optimizers["adamw groups"]), newRun(t, 2, tensor.Float32, optimizers["adamw groups"])
	a.train(1)
	before := b.bytes()
	write := func(c *checkpoint.Checkpoint) *bytes.Buffer {
		var file bytes.Buffer
		require.NoError(t, c.Write(context.Background(), &file))
		return &file
	}
	other := nn.Sequential(nn.Linear(4, 9))
	require.NoError(t, other.To(a.dev, nn.WithAllocator(a.alloc)))
	defer other.Release()
	for name, c := range map[string]struct {
		file *bytes.Buffer
		into *checkpoint.Checkpoint
		want string
	}{
		"a section more":  {write(a.checkpoint().Add("more", checkpoint.Value(new(int)))), b.checkpoint(), "more"},
		"a section less":  {write(a.checkpoint()), b.checkpoint().Add("more", checkpoint.Value(new(int))), "no such section"},
		"another model":   {write(checkpoint.New().Add("model", checkpoint.Module(other))), checkpoint.New().Add("model", checkpoint.Module(b.model)), "0.weight: wanted shape [8, 4], found shape [9, 4]"},
		"another's names": {write(checkpoint.New().Add("model", checkpoint.Module(a.model))), checkpoint.New().Add("model", checkpoint.Module(nn.Sequential(b.model.At(0)))), "3.weight: wanted nothing, found shape [2, 8]"},
	} {
		err := c.into.Read(context.Background(), c.file)
		var wrong *checkpoint.MismatchError
		require.ErrorAs(t, err, &wrong, name)
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, before, b.bytes(), name)
	}
	wrong := optim.SGD(b.model.Parameters())
	file := write(checkpoint.New().Add("optimizer", checkpoint.Optimizer(a.opt)))
	require.ErrorIs(t, checkpoint.New().Add("optimizer", checkpoint.Optimizer(wrong)).Read(context.Background(), file), optim.ErrInvalid)
	text := write(checkpoint.New().Add("step", checkpoint.Value(new(int))))
	var bad *checkpoint.SectionError
	require.ErrorAs(t, checkpoint.New().Add("step", checkpoint.Value(new([]string))).Read(context.Background(), text), &bad)
}

func TestAdd_RefusesNamesThatWouldMix(t *testing.T) {
	for _, names := range [][]string{{"a.b"}, {""}, {"a", "a"}} {
		c := checkpoint.New()
		for _, n := range names {
			c.Add(n, checkpoint.Value(new(int)))
		}
		var wrong *checkpoint.MismatchError
		require.ErrorAs(t, c.Write(context.Background(), new(bytes.Buffer)), &wrong)
		require.Error(t, c.Read(context.Background(), new(bytes.Buffer)))
		require.Error(t, c.WriteFile(context.Background(), filepath.Join(t.TempDir(), "x")))
	}
}
