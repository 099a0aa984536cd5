package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// spoil changes the text of a checkpoint and makes it one without a checksum, of the version that had none: what a program may have
// written, not what a disk has damaged.
func spoil(t *testing.T, file []byte, old, with string) []byte {
	t.Helper()
	require.Equal(t, len(old), len(with), "the header stays as long as it was")
	for _, r := range [][2]string{{`"version":"2"`, `"version":"1"`}, {`"cistern.checksum"`, `"another.checksum"`}, {`"cistern.crc32c"`, `"another.crc32c"`}, {old, with}} {
		require.Equal(t, 1, bytes.Count(file, []byte(r[0])), "%s in %q", r[0], file)
		file = bytes.Replace(file, []byte(r[0]), []byte(r[1]), 1)
	}
	return file
}

// Whatever does not fit, and in whichever section, nothing has changed.
func TestRead_OfWhatOneSectionRefuses_ChangesNoSection(t *testing.T) {
	make := optimizers["adamw groups"]
	a, b := newRun(t, 1, tensor.Float32, make), newRun(t, 2, tensor.Float32, make)
	a.train(3)
	b.train(1)
	whole, before := a.bytes(), b.bytes()
	held := b.alloc.Stats().AllocatedBytes.All.Current
	for name, c := range map[string][3]string{
		"a rate":          {`\"lr\":0.02`, `\"lr\":-1.2`, "optimizer"},
		"betas":           {`\"betas\":[0.9,0.999],\"decoupled_weight_decay\":true,\"eps\":1e-8,\"initial_lr\":0.01`, `\"betas\":[0.9,1.999],\"decoupled_weight_decay\":true,\"eps\":1e-8,\"initial_lr\":0.01`, "optimizer"},
		"steps":           {`\"steps\":{\"0\":3`, `\"steps\":{\"0\":0`, "optimizer"},
		"a state's name":  {`"optimizer.state.3.exp_avg"`, `"optimizer.state.9.exp_avg"`, "optimizer"},
		"another's name":  {`"optimizer.state.3.exp_avg"`, `"optimizer.steak.3.exp_avg"`, "optimizer"},
		"an epoch":        {`\"last_epoch\":3,\"base_lrs\"`, `\"last_epoch\":-,\"base_lrs\"`, "schedule"},
		"a scale":         {`\"Scale\":524288`, `\"Scale\":-24288`, "scaler"},
		"a generator":     {`\"seed\":1`, `\"seed\":x`, "generator"},
		"the last one":    {`"section.step":"3"`, `"section.step":"x"`, "step"},
		"a section":       {`"section.step"`, `"section.stop"`, "step"},
		"a tensor's name": {`"model.3.bias"`, `"model.3.bios"`, "model"},
	} {
		err := b.checkpoint().Read(context.Background(), bytes.NewReader(spoil(t, whole, c[0], c[1])))
		require.Error(t, err, name)
		require.Contains(t, []string{c[2], "stop"}, sectionOf(t, err), "%s: %v", name, err)
		require.Equal(t, before, b.bytes(), name)
		require.Equal(t, held, b.alloc.Stats().AllocatedBytes.All.Current, name)
	}
	require.NoError(t, b.checkpoint().Read(context.Background(), bytes.NewReader(spoil(t, whole, `"model.0.bias"`, `"model.0.bias"`))), "and files without a checksum load")
	require.Equal(t, whole, b.bytes())
}

// sectionOf is the section that an error names.
func sectionOf(t *testing.T, err error) string {
	t.Helper()
	var format *checkpoint.FormatError
	var mismatch *checkpoint.MismatchError
	var section *checkpoint.SectionError
	switch {
	case errors.As(err, &format):
		return format.Section
	case errors.As(err, &mismatch):
		return mismatch.Section
	case errors.As(err, &section):
		return section.Section
	}
	require.Fail(t, "an error without a type", "%v", err)
	return ""
}

// A device that fails after all was checked: what was changed is put back.
func TestRead_WhereAChangeFails_PutsEverythingBack(t *testing.T) {
	make := optimizers["rmsprop"]
	a, b := newRun(t, 1, tensor.Float32, make), newRun(t, 2, tensor.Float32, make)
	a.train(3)
	b.train(2)
	boom := errors.New("boom")
	var file bytes.Buffer
	require.NoError(t, a.checkpoint().Add("last", checkpoint.State(broken{})).Write(context.Background(), &file))
	before := b.bytes()
	held := b.alloc.Stats().AllocatedBytes.All.Current
	for name, last := range map[string]broken{"check": {check: boom}, "load": {load: boom}} {
		err := b.checkpoint().Add("last", checkpoint.State(last)).Read(context.Background(), bytes.NewReader(file.Bytes()))
		require.ErrorIs(t, err, boom, name)
		require.Equal(t, "last", sectionOf(t, err))
		require.Equal(t, before, b.bytes(), name)
		require.Equal(t, held, b.alloc.Stats().AllocatedBytes.All.Current, name)
		if last.load != nil {
			var partial *checkpoint.PartialError
			require.ErrorAs(t, err, &partial, "it cannot be put back itself")
		}
	}
}

func TestRead_ThatIsCancelled_ChangesNothing(t *testing.T) {
	a, b := newRun(t, 1, tensor.Float32, optimizers["lion"]), newRun(t, 2, tensor.Float32, optimizers["lion"])
	a.train(2)
	before := b.bytes()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, b.checkpoint().Read(ctx, bytes.NewReader(a.bytes())), context.Canceled)
	require.Equal(t, before, b.bytes())
}

func TestRead_OfADamagedByte_ChangesNothing(t *testing.T) {
	newModel := func(seed uint64) (*nn.LinearLayer, *checkpoint.Checkpoint) {
		m := nn.Linear(2, 1)
		require.NoError(t, m.To(host.Default(), nn.Seed(seed)))
		t.Cleanup(m.Release)
		return m, checkpoint.New().Add("model", checkpoint.Module(m)).Add("step", checkpoint.Value(new(int)))
	}
	_, a := newModel(1)
	_, b := newModel(2)
	var file, was bytes.Buffer
	require.NoError(t, a.Write(context.Background(), &file))
	require.NoError(t, b.Write(context.Background(), &was))
	for i := range file.Bytes() {
		for _, flip := range []byte{1, 0x10, 0x80} {
			damaged := slices.Clone(file.Bytes())
			damaged[i] ^= flip
			require.Error(t, b.Read(context.Background(), bytes.NewReader(damaged)), "byte %d", i)
		}
	}
	var is bytes.Buffer
	require.NoError(t, b.Write(context.Background(), &is))
	require.Equal(t, was.Bytes(), is.Bytes())
}

func TestRead_ReportsAllThatDiffers(t *testing.T) {
	write := func(c *checkpoint.Checkpoint) *named {
		var file bytes.Buffer
		require.NoError(t, c.Write(context.Background(), &file))
		return &named{bytes.NewReader(file.Bytes())}
	}
	model := func(parts ...nn.Layer) nn.Layer {
		m := nn.Sequential(parts...)
		require.NoError(t, m.To(host.Default(), nn.Seed(1)))
		t.Cleanup(m.Release)
		return m
	}
	a, b := model(nn.Linear(2, 1), nn.Linear(1, 1)), model(nn.Linear(3, 1))
	err := checkpoint.New().Add("net", checkpoint.Module(b)).Read(context.Background(), write(checkpoint.New().Add("net", checkpoint.Module(a))))
	var mismatch *checkpoint.MismatchError
	require.ErrorAs(t, err, &mismatch)
	require.Equal(t, checkpoint.MismatchError{File: "run.safetensors", Section: "net", Differences: []checkpoint.Difference{
		{Tensor: "0.weight", Wanted: "shape [1, 3]", Found: "shape [1, 2]"},
		{Tensor: "1.bias", Wanted: "nothing", Found: "shape [1]"}, {Tensor: "1.weight", Wanted: "nothing", Found: "shape [1, 1]"},
	}}, *mismatch)
	require.True(t, strings.HasPrefix(err.Error(), "checkpoint: run.safetensors: net: 0.weight: wanted shape [1, 3], found"), err)
}

type named struct{ *bytes.Reader }

func (*named) Name() string { return "run.safetensors" }

// A model in another type takes the values, and one of which loading fails has its own.
func TestModule_ConvertsAndPutsBack(t *testing.T) {
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, errors.Join(alloc.Close(), dev.Close())) }()
	model := func(seed uint64, dt tensor.DType) *nn.LinearLayer {
		m := nn.Linear(2, 3)
		require.NoError(t, m.To(dev, nn.Seed(seed), nn.DType(dt), nn.WithAllocator(alloc)))
		return m
	}
	a, b := model(1, tensor.Float32), model(2, tensor.BFloat16)
	defer a.Release()
	defer b.Release()
	text := func(p *autograd.Parameter) string {
		v, err := p.Tensor().Float64s()
		require.NoError(t, err)
		return fmt.Sprint(v)
	}
	want, err := a.Weight.Tensor().To(tensor.BFloat16)
	require.NoError(t, err)
	defer want.Release()
	values, err := want.Float64s()
	require.NoError(t, err)
	var file bytes.Buffer
	require.NoError(t, checkpoint.New().Add("m", checkpoint.Module(a)).Add("x", checkpoint.State(broken{})).Write(context.Background(), &file))
	before := text(b.Weight)
	require.Error(t, checkpoint.New().Add("m", checkpoint.Module(b)).Add("x", checkpoint.State(broken{load: errors.New("boom")})).
		Read(context.Background(), bytes.NewReader(file.Bytes())))
	require.Equal(t, before, text(b.Weight))
	require.NoError(t, checkpoint.New().Add("m", checkpoint.Module(b)).Add("x", checkpoint.State(broken{})).
		Read(context.Background(), bytes.NewReader(file.Bytes())))
	require.Equal(t, fmt.Sprint(values), text(b.Weight))
}

// What a schedule would do to the optimizer that a file brings is seen before it is done.
func TestRead_OfASettingThatAScheduleCannotDrive_ChangesNothing(t *testing.T) {
	make := func(momentum float64) (*optim.Grouped, *optim.Schedule) {
		var ps []*autograd.Parameter
		opt := optim.SGD(ps, optim.Momentum(momentum))
		if momentum == 0 {
			return opt, optim.OneCycleLR(opt, []float64{1}, 10, optim.FixedMomentum())
		}
		return opt, optim.OneCycleLR(opt, []float64{1}, 10)
	}
	plainOpt, plain := make(0)
	opt, cycle := make(0.9)
	var file bytes.Buffer
	require.NoError(t, checkpoint.New().Add("o", checkpoint.Optimizer(plainOpt)).Add("s", checkpoint.State(plain)).Write(context.Background(), &file))
	lr, momentum := opt.LR(0), opt.Momentum(0)
	err := checkpoint.New().Add("o", checkpoint.Optimizer(opt)).Add("s", checkpoint.State(cycle)).Read(context.Background(), &file)
	require.ErrorIs(t, err, optim.ErrInvalid)
	require.Equal(t, []float64{lr, momentum}, []float64{opt.LR(0), opt.Momentum(0)})
	require.NoError(t, opt.Err(), "the optimizer is as it was")
}
