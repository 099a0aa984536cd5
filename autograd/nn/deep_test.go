package nn_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
)

// innermost counts how often it is asked for its parts. It embeds no Base, which would be asked in its place.
type innermost struct{ visits int }

func (m *innermost) Parameters() []*autograd.Parameter    { return nil }
func (m *innermost) To(device.Device, ...nn.Option) error { return nil }
func (m *innermost) Release()                             {}

func (m *innermost) Forward(x *autograd.Variable) *autograd.Variable { return x }

func (m *innermost) Parts() []nn.Part {
	m.visits++
	return nil
}

// The work of building, describing and listing a deep model goes with its depth: each walks down to the innermost module a fixed number
// of times, and not once for each module around it.
func TestSequential_OfGreatDepthIsWalkedAFixedNumberOfTimes(t *testing.T) {
	visits := func(depth int) (build, describe, list int) {
		inner := new(innermost)
		m := nn.Sequential(inner)
		for range depth - 1 {
			m = nn.Sequential(m)
		}
		build, inner.visits = inner.visits, 0
		text := m.String()
		describe, inner.visits = inner.visits, 0
		require.Equal(t, 2*depth, strings.Count(text, "\n"))
		require.True(t, strings.HasPrefix(text, "Sequential(\n  (0): Sequential(\n    (0): Seq"))
		require.Empty(t, nn.NamedState(m))
		return build, describe, inner.visits
	}
	build, describe, list := visits(3)
	deepBuild, deepDescribe, deepList := visits(3000)
	require.Equal(t, build, deepBuild, "building")
	require.Equal(t, describe, deepDescribe, "describing")
	require.Equal(t, list, deepList, "listing the state")
	require.Positive(t, describe+list, "the innermost module is asked at all")
}
