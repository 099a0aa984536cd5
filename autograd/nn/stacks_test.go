package nn_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// trainOn is a function of a program, whose second line everything in a step comes from.
func trainOn(g *autograd.Graph, m nn.Layer, x *tensor.Tensor) error {
	return m.Forward(g.Input(x)).Sum(nil, false).Backward()
}

// deepConvNet has eleven layers of convolutions, in nested lists.
func deepConvNet() *nn.SequentialModule {
	layers := []nn.Layer{nn.Conv2d(1, 4, 3, nn.Padding(1)), nn.ReLU()}
	for range 10 {
		layers = append(layers, nn.Sequential(nn.Sequential(nn.Conv2d(4, 4, 3, nn.Padding(1)), nn.ReLU())))
	}
	return nn.Sequential(layers...)
}

// Whatever is allocated for a layer has the program's line among few frames, and the layer's operation and path in front.
func TestStacks_OfADeepModelReachTheProgramsLine(t *testing.T) {
	r := onSim(t)
	m := deepConvNet()
	r.place(m)
	x := r.tensor(make([]float32, 64), 1, 1, 8, 8)
	require.NoError(t, r.alloc.RecordHistory(memory.HistoryOptions{}))
	g := r.graph()
	defer g.Release()
	require.NoError(t, trainOn(g, m, x))
	modules := map[string]bool{}
	for _, e := range r.alloc.Snapshot().DeviceTraces[r.dev.ID().Index] {
		if e.Action != memory.ActionAlloc {
			continue
		}
		require.LessOrEqual(t, len(e.Frames), 8, "%v", e.Frames)
		own := 0
		for _, f := range e.Frames {
			if strings.HasSuffix(f.Name, ".trainOn") {
				own++
				require.True(t, strings.HasSuffix(f.Filename, "stacks_test.go"))
				require.Equal(t, 17, f.Line)
			}
		}
		require.Equal(t, 1, own, "%v", e.Frames)
		if name := e.Frames[0].Name; strings.HasPrefix(name, "conv2d") {
			modules[name] = true
		}
	}
	for _, want := range []string{"conv2d_bias (0)", "conv2d_bias (2.0.0)", "conv2d_bias (11.0.0)", "conv2d_bias backward (0)", "conv2d_bias backward (11.0.0)"} {
		require.Contains(t, modules, want, "%v", modules)
	}
}
