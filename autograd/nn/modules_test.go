package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// lists has lists and maps of modules and of parameters.
type lists struct {
	nn.Base
	Blocks []nn.Layer
	Heads  map[string]nn.Layer
	Ps     []*autograd.Parameter
	Pd     map[string]*autograd.Parameter
	W      *autograd.Parameter
	None   []nn.Layer
	Again  nn.Layer // the first of the blocks
}

func newLists() *lists {
	p := func(shape ...int) *autograd.Parameter { return autograd.DeclareParameter("p", nn.Zeros, shape...) }
	first := nn.Linear(2, 3)
	return nn.New(&lists{
		Blocks: []nn.Layer{first, nn.Sequential(nn.ReLU())}, Heads: map[string]nn.Layer{"a": nn.Linear(2, 1)},
		Ps: []*autograd.Parameter{p(2, 3), p(4)}, Pd: map[string]*autograd.Parameter{"x": p(2, 3), "y": p()}, W: p(2), None: []nn.Layer{}, Again: first,
	})
}

// The order, and that a module comes once, are those of PyTorch's named_modules.
func TestNamedModules_AreThoseOfPyTorch(t *testing.T) {
	m := newLists()
	var found []string
	for name, part := range nn.NamedModules(m) {
		require.NotNil(t, part)
		found = append(found, name)
	}
	require.Equal(t, []string{"", "blocks", "blocks.0", "blocks.1", "blocks.1.0", "heads", "heads.a", "ps", "pd", "none"}, found)
	n, linear := 0, 0
	for part := range nn.Modules(m) {
		n++
		if _, ok := part.(*nn.LinearLayer); ok {
			linear++
		}
	}
	require.Equal(t, []int{len(found), 2}, []int{n, linear})
	found = nil
	for name := range nn.NamedChildren(m) {
		found = append(found, name)
	}
	require.Equal(t, []string{"blocks", "heads", "ps", "pd", "none", "again"}, found)
	n = 0
	for part := range nn.Children(m.Blocks[1]) {
		n++
		require.Equal(t, "ReLU()", part.(interface{ String() string }).String())
	}
	require.Equal(t, 1, n)
	for range nn.Modules(nil) {
		t.Fatal("nil has no modules")
	}
	for range nn.Modules(m) {
		break
	}
	for range nn.Children(m) {
		break
	}
}

// Written by PyTorch 1.13, but for Again and what it says of types.
func TestString_OfListsOfParametersIsPyTorchs(t *testing.T) {
	m := newLists()
	m.Again = nil
	require.Contains(t, m.String(), "(0): Parameter containing: [no value of size 2x3]")
	r := onHost(t)
	r.place(m)
	require.Equal(t, `lists(
  (blocks): ModuleList(
    (0): Linear(in_features=2, out_features=3, bias=True)
    (1): Sequential(
      (0): ReLU()
    )
  )
  (heads): ModuleDict(
    (a): Linear(in_features=2, out_features=1, bias=True)
  )
  (ps): ParameterList(
      (0): Parameter containing: [torch.float32 of size 2x3]
      (1): Parameter containing: [torch.float32 of size 4]
  )
  (pd): ParameterDict(
      (x): Parameter containing: [torch.float32 of size 2x3]
      (y): Parameter containing: [torch.float32 of size ]
  )
  (none): ModuleList()
)`, m.String())
}
