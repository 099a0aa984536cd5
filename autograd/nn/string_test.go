package nn_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// classifier is an own module with parts that say nothing of themselves.
type classifier struct {
	nn.Base
	body   *holder
	layers []nn.Layer
	head   *nn.LinearLayer
}

func newClassifier() *classifier {
	c := &classifier{body: &holder{in: newAdapter(true)}, head: nn.Linear(2, 1)}
	c.layers = []nn.Layer{nn.ReLU(), nn.Sequential(newAdapter(true)), nn.Checkpointed(newAdapter(true))}
	nn.RegisterField(&c.body.Base, "in", &c.body.in)
	nn.RegisterField(&c.Base, "body", &c.body)
	nn.RegisterList(&c.Base, "layers", &c.layers)
	nn.RegisterField(&c.Base, "head", &c.head)
	return c
}

func (c *classifier) Forward(x *autograd.Variable) *autograd.Variable { return c.head.Forward(x) }

func TestString_OfAnOwnModuleIsThatOfPyTorch(t *testing.T) {
	c := newClassifier()
	const parts = `(
  (body): holder(
    (in): adapter()
  )
  (layers): ModuleList(
    (0): ReLU()
    (1): Sequential(
      (0): adapter()
    )
    (2): adapter()
  )
  (head): Linear(in_features=2, out_features=1, bias=True)
)`
	require.Equal(t, "classifier"+parts, nn.Describe("", c))
	require.Equal(t, "net"+parts, nn.Describe("net", c))
	require.Equal(t, "Module"+parts, fmt.Sprint(c), "Base does not know yet what embeds it")
	require.Equal(t, "classifier"+parts, fmt.Sprint(nn.New(c)))
	require.Equal(t, "adapter()", fmt.Sprint(newAdapter(true)))
	require.Equal(t, "Sequential(\n  (0): adapter()\n)", fmt.Sprint(nn.Sequential(newAdapter(true))))
}

func TestString_OfAModuleThatIsAPartOfItselfEnds(t *testing.T) {
	c := newClassifier()
	c.layers = []nn.Layer{nn.Sequential(c)}
	require.Contains(t, fmt.Sprint(c), "a part of itself")
	require.Contains(t, nn.Describe("", c), "a part of itself")
	c.layers = []nn.Layer{c}
	require.Contains(t, fmt.Sprint(c), "a part of itself")
	require.Contains(t, fmt.Sprint(nn.Sequential(c)), "a part of itself")
	require.Contains(t, fmt.Sprint(nn.Checkpointed(c)), "a part of itself")
	require.Equal(t, "net()", nn.Describe("net", nil))
}
