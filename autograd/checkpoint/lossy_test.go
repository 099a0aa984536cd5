package checkpoint_test

import (
	"bytes"
	"context"
	"math"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// tracked is what a program may keep beside its model.
type tracked struct {
	Step int
	Mean *tensor.Tensor
}

type unexported struct{ loss float64 }

type pointed struct{ *inner }

// written has a method for one way only.
type written struct{ X int }

func (written) MarshalJSON() ([]byte, error) { return []byte(`"x"`), nil }

func TestValue_OfWhichJSONWouldLoseAPart_IsRefusedByWrite(t *testing.T) {
	var it any = map[string]any{"a": []any{1, unexported{2}}}
	for name, c := range map[string]struct {
		section    checkpoint.Section
		path, says string
	}{
		"a tensor":           {checkpoint.Value(new(*tensor.Tensor)), "", "checkpoint.Tensor"},
		"in a struct":        {checkpoint.Value(new(tracked)), "Mean", "checkpoint.Tensor"},
		"in a map":           {checkpoint.Value(new(map[string]*tensor.Tensor)), "", "checkpoint.Tensors"},
		"a generator":        {checkpoint.Value(new(*tensor.Generator)), "", "checkpoint.Generator"},
		"parameters":         {checkpoint.Value(new([]*autograd.Parameter)), "", "checkpoint.Module"},
		"a layer":            {checkpoint.Value(new(*nn.LinearLayer)), "", "checkpoint.Module"},
		"a module":           {checkpoint.Value(new(nn.Module)), "", "checkpoint.Module"},
		"an optimizer":       {checkpoint.Value(new(*optim.Grouped)), "", "checkpoint.Optimizer"},
		"a schedule":         {checkpoint.Value(new(*optim.Schedule)), "", "checkpoint.State"},
		"a channel":          {checkpoint.Value(new(struct{ C chan int })), "C", "it cannot be in a file"},
		"a function":         {checkpoint.Value(new(map[int]func())), "", "it cannot be in a file"},
		"not exported":       {checkpoint.Value(&unexported{1}), "loss", "the field is not exported"},
		"zero":               {checkpoint.Value(new(unexported)), "loss", "the field is not exported"},
		"in an interface":    {checkpoint.Value(&it), "a[1].loss", "the field is not exported"},
		"embedded pointer":   {checkpoint.Value(new(pointed)), "inner", "the field is not exported"},
		"with infinities":    {checkpoint.Value(&struct{ A, b any }{math.Inf(1), 1}), "b", "the field is not exported"},
		"methods of *T only": {checkpoint.Value(&map[string]big.Int{"x": *big.NewInt(3)}), "neg", "the field is not exported"},
	} {
		var section *checkpoint.SectionError
		var bad *checkpoint.ValueError
		err := checkpoint.New().Add("v", c.section).Write(context.Background(), new(bytes.Buffer))
		require.ErrorAs(t, err, &bad, name)
		require.ErrorAs(t, err, &section, name)
		require.Equal(t, c.path, bad.Path, name)
		require.Contains(t, bad.Detail, c.says, name)
	}
}

func TestValue_ThatCouldNotBeReadAgain_IsRefusedByWrite(t *testing.T) {
	var section *checkpoint.SectionError
	var e error = &checkpoint.ValueError{}
	for name, s := range map[string]checkpoint.Section{"half a pair of methods": checkpoint.Value(&written{1}), "an interface": checkpoint.Value(&e)} {
		require.ErrorAs(t, checkpoint.New().Add("v", s).Write(context.Background(), new(bytes.Buffer)), &section, name)
	}
}

// node is a type that has itself.
type node struct {
	At    time.Time
	Big   big.Int // whose methods are those of the pointer
	Next  *node
	Other map[string][]*node
}

func TestValue_OfTypesWithMethods_IsKept(t *testing.T) {
	v := node{At: time.Unix(3, 4).UTC(), Big: *big.NewInt(5), Next: &node{Big: *big.NewInt(6)}, Other: map[string][]*node{"x": {{}}}}
	var got node
	sent(t, &v, &got)
	require.Equal(t, v, got)
	trees, gotTrees := tree{"a": {"b": nil}}, tree(nil)
	sent(t, &trees, &gotTrees)
	require.Equal(t, trees, gotTrees)
}

type tree map[string]tree

// guarded has what is not for files.
type guarded struct {
	mu     sync.Mutex
	Step   int
	Mean   *tensor.Tensor `json:"-"`
	Deeper struct {
		Best float64
		call func() `json:"-"`
	}
}

func TestValue_ReadLeavesWhatIsNotWritten(t *testing.T) {
	mean, called := new(tensor.Tensor), false
	v, got := &guarded{Step: 3}, &guarded{Mean: mean}
	v.Deeper.Best = math.Inf(1)
	got.Deeper.call = func() { called = true }
	got.mu.Lock()
	sent(t, v, got)
	require.False(t, got.mu.TryLock())
	require.Equal(t, 3, got.Step)
	require.Equal(t, math.Inf(1), got.Deeper.Best)
	require.Same(t, mean, got.Mean)
	got.Deeper.call()
	require.True(t, called)
}
