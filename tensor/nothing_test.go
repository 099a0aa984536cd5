package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// onBoth runs a test on the host and on the emulated driver.
func onBoth(t *testing.T, f func(t *testing.T, b bench)) {
	t.Run("host", func(t *testing.T) { f(t, settings[0].bench(t)) })
	t.Run("cuda", func(t *testing.T) {
		b, _ := onPTX(t)
		f(t, b)
	})
}

// constant is a list of n equal numbers.
func constant(n int, v float64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func TestConvGradInput_OfAnExpandedKernelWithPhasesWithoutTaps(t *testing.T) {
	onBoth(t, func(t *testing.T, b bench) {
		m := making{t: t, Exec: b.Exec}
		defer m.release()
		two := m.of(tensor.Scalar(b.Exec, 2, tensor.Float32))
		grad := m.of(tensor.Ones(b.Exec, tensor.Float32, 1, 2, 2, 2))
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			w := m.of(m.of(two.To(dt)).Expand(2, 3, 1, 1))
			g := m.of(gradients.ConvInput(m.of(grad.To(dt)), w, tensor.Shape{1, 3, 6, 6}, tensor.Conv{Stride: []int{3}}))
			want := constant(3*6*6, 0) // every third row and column has the one tap of two outputs
			for c := range 3 {
				for _, y := range []int{0, 3} {
					for _, x := range []int{0, 3} {
						want[(c*6+y)*6+x] = 4
					}
				}
			}
			require.Equal(t, want, values(t, g), dt)
		}
	})
}

func TestAdaptivePool_OfSizeZeroHasAGradientOfZeros(t *testing.T) {
	onBoth(t, func(t *testing.T, b bench) {
		m := making{t: t, Exec: b.Exec}
		defer m.release()
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16} {
			x := m.of(tensor.Ones(b.Exec, dt, 2, 3, 4))
			out := m.both(x.AdaptiveMaxPool1d(0))
			require.Equal(t, tensor.Shape{2, 3, 0}, m.of(x.AdaptiveAvgPool1d(0)).Shape())
			grad := m.of(m.of(tensor.Scalar(b.Exec, 1, dt)).Expand(2, 3, 0))
			for _, g := range []*tensor.Tensor{
				m.of(gradients.AvgPool(grad, x.Shape(), 1, tensor.Adaptive(0))),
				m.of(gradients.MaxPool(grad, out[1], x.Shape(), 1, tensor.Adaptive(0))),
			} {
				require.Equal(t, constant(24, 0), values(t, g))
			}
		}
	})
}

func TestLinearAct_WithoutOutputs(t *testing.T) {
	onBoth(t, func(t *testing.T, b bench) {
		m := making{t: t, Exec: b.Exec}
		defer m.release()
		for _, f := range []tensor.Activation{tensor.ActIdentity, tensor.ActReLU, tensor.ActGELU, tensor.ActGELUTanh} {
			x := m.of(tensor.Ones(b.Exec, tensor.Float32, 2, 3))
			w, bias := m.of(tensor.Ones(b.Exec, tensor.Float32, 0, 3)), m.of(tensor.Ones(b.Exec, tensor.Float32, 0))
			for _, r := range m.both(gradients.LinearActPre(x, w, bias, f)) {
				require.Equal(t, tensor.Shape{2, 0}, r.Shape())
			}
			require.Equal(t, tensor.Shape{2, 0}, m.of(tensor.LinearAct(x, w, nil, f)).Shape())
			vector := m.of(tensor.Ones(b.Exec, tensor.Float32, 3))
			require.Equal(t, tensor.Shape{0}, m.of(tensor.LinearAct(vector, w, bias, f)).Shape())
		}
	})
}

// Numbers that no image needs are no reason to loop over them or to take memory for them.
func TestConv_TakesHugeStridesAndDilations(t *testing.T) {
	const huge = math.MaxInt32
	for _, channels := range []int{1, 8} { // the loops of few channels, and products
		onBoth(t, func(t *testing.T, b bench) {
			m := making{t: t, Exec: b.Exec}
			defer m.release()
			x := m.of(tensor.Ones(b.Exec, tensor.Float32, 1, channels, 3, 3))
			w := m.of(tensor.Ones(b.Exec, tensor.Float32, channels, channels, 1, 1))
			c := tensor.Conv{Stride: []int{huge}, Dilation: []int{huge}}
			y := m.of(tensor.Conv2d(x, w, nil, c))
			require.Equal(t, constant(channels, float64(channels)), values(t, y))
			require.Equal(t, float64(channels), values(t, m.of(gradients.ConvInput(y, w, x.Shape(), c)))[0]/float64(channels))
			require.Equal(t, float64(channels), values(t, m.of(gradients.ConvWeight(y, x, w.Shape(), c)))[0])

			far := m.of(tensor.Ones(b.Exec, tensor.Float32, channels, channels, 2, 2))
			c.Padding = []int{huge} // one tap of each result meets the image at most
			require.Equal(t, 4, m.of(tensor.Conv2d(x, far, nil, c)).Len()/channels)
		})
	}
	b := settings[0].bench(t)
	x, w := iota(t, b.Exec, 1, 1, 2), iota(t, b.Exec, 1, 1, 1)
	var bad *tensor.ValueError
	for _, c := range []tensor.Conv{{Stride: []int{huge + 1}}, {Padding: []int{1 << 62}}, {Dilation: []int{1 << 62}}} {
		_, err := tensor.Conv1d(x, w, nil, c)
		require.ErrorAs(t, err, &bad)
	}
}
