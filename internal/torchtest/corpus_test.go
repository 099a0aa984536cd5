package torchtest

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
)

var add = flag.String("torchadd", "", "a program in JSON, or the path of a file of them, one a line, to add to the corpus with PyTorch's answer")

// entry is a file of the corpus.
type entry struct {
	PyTorch string
	Program *Program
	Answer  *Answer
}

const corpus = "testdata/corpus"

func TestCorpus_AgreesWithPyTorch(t *testing.T) {
	r := newRunner(t)
	if *add != "" {
		addPrograms(t, r, *add)
	}
	files, err := filepath.Glob(corpus + "/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var e entry
			require.NoError(t, json.Unmarshal(text, &e))
			if d := Compare(e.Program, r.Run(e.Program), e.Answer); d != nil {
				t.Errorf("%s\n%s", d, Describe(e.Program))
			}
		})
	}
}

// addPrograms writes programs with PyTorch's answers.
func addPrograms(t *testing.T, r *Runner, text string) {
	torch := newTorch(t)
	if file, err := os.ReadFile(text); err == nil {
		text = string(file)
	}
	for line := range strings.Lines(text) {
		p := new(Program)
		require.NoError(t, json.Unmarshal([]byte(line), p), line)
		answer, err := torch.Run(p, 48)
		require.NoError(t, err)
		if answer.Failed >= 0 {
			answer.Values, answer.Grads = nil, nil
		}
		out, err := json.MarshalIndent(entry{torch.Version, p, answer}, "", " ")
		require.NoError(t, err)
		h := fnv.New32a()
		fmt.Fprint(h, line)
		name := "train"
		if n := len(p.Steps); n > 0 {
			name = strings.ToLower(strings.ReplaceAll(p.Steps[n-1].Op, ".", ""))
		}
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%s-%08x.json", corpus, name, h.Sum32()), append(out, '\n'), 0o644))
	}
}

// A comparison that finds nothing wrong with wrong operations would pass all the same: each of these is a bug that the stored programs
// or a few random ones must show.
func TestCompare_FindsOperationsThatAreWrong(t *testing.T) {
	wrong := map[string]struct {
		op, program string
		change      func(v variable) variable
	}{
		"the value of an exact function":   {"ReLU", `{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[2],"data":"1 -2"},{"id":1,"op":"ReLU","args":["v0"]}]}`, func(v variable) variable { return v.AddScalar(1e-6) }},
		"the value of an inexact function": {"Exp", `{"steps":[{"id":0,"op":"Input","dtype":"float64","base":[2],"data":"1 -2"},{"id":1,"op":"Exp","args":["v0"]}]}`, func(v variable) variable { return v.MulScalar(1 + 1e-13) }},
		"the value of a sum":               {"Sum", `{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[2],"data":"1.1 -2.3"},{"id":1,"op":"Sum","args":["v0",[],false]}]}`, func(v variable) variable { return v.AddScalar(1e-4) }},
		"the type":                         {"Abs", `{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[2],"data":"1 -2"},{"id":1,"op":"Abs","args":["v0"]}]}`, func(v variable) variable { return v.To(dtypes["float64"]) }},
		"the shape":                        {"Abs", `{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[2],"data":"1 -2"},{"id":1,"op":"Abs","args":["v0"]}]}`, func(v variable) variable { return v.Unsqueeze(0) }},
		"the gradient": {"Mul", `{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[2],"data":"1 -2","grad":true},{"id":1,"op":"Mul","args":["v0","v0"]}],"backward":{"of":["v1"],"seeds":["1 1"]}}`,
			func(v variable) variable { return v.Detach().Mul(v).Sub(v.Detach().Mul(v.Detach())).Add(v.Detach()) }},
		"a unit in the last place of a division": {"Div", `{"steps":[{"id":0,"op":"Input","dtype":"float64","base":[2],"data":"1 3"},{"id":1,"op":"Input","dtype":"float64","base":[],"data":"3"},{"id":2,"op":"Div","args":["v0","v1"]}]}`,
			func(v variable) variable { return v.AddScalar(0x1p-54) }},
		"a gradient that loses a NaN": {"MulScalar", `{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[2],"data":"1 -2","grad":true},{"id":1,"op":"MulScalar","args":["v0",2]}],"backward":{"of":["v1"],"seeds":["nan 1"]}}`,
			func(v variable) variable {
				return autograd.Cat([]variable{v.Detach().Narrow(0, 0, 1), v.Narrow(0, 1, 1)}, 0)
			}},
		"an exact value that is infinite": {"Add", `{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[1],"data":"1.7014118346046923e+38"},{"id":1,"op":"Add","args":["v0","v0"]}]}`,
			func(v variable) variable { return v.Clamp(-math.MaxFloat32, math.MaxFloat32) }},
		"a refusal that is missing": {"View", `{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[2,2],"data":"1 2 3 4"},{"id":1,"op":"Contiguous","args":["v0"]},{"id":2,"op":"Transpose","args":["v1",0,1]},{"id":3,"op":"View","args":["v2",[4]]}]}`, nil},
	}
	answers := map[string]*Answer{
		"the value of an exact function":   {Failed: -1, Values: map[string]Value{"v0": {DType: "float32", Shape: []int{2}, Data: "1 -2"}, "v1": {DType: "float32", Shape: []int{2}, Data: "1 0"}}},
		"the value of an inexact function": {Failed: -1, Values: map[string]Value{"v0": {DType: "float64", Shape: []int{2}, Data: "1 -2"}, "v1": {DType: "float64", Shape: []int{2}, Data: "2.718281828459045 0.1353352832366127", Spread: "2e-15 2e-16"}}},
		"the value of a sum":               {Failed: -1, Values: map[string]Value{"v0": {DType: "float32", Shape: []int{2}, Data: "1.100000023841858 -2.299999952316284"}, "v1": {DType: "float32", Shape: []int{}, Data: "-1.1999999284744263", Spread: "1e-6"}}},
		"the type":                         {Failed: -1, Values: map[string]Value{"v0": {DType: "float32", Shape: []int{2}, Data: "1 -2"}, "v1": {DType: "float32", Shape: []int{2}, Data: "1 2"}}},
		"the gradient": {Failed: -1, Values: map[string]Value{"v0": {DType: "float32", Shape: []int{2}, Data: "1 -2"}, "v1": {DType: "float32", Shape: []int{2}, Data: "1 4"}},
			Grads: map[string]Value{"v0": {DType: "float32", Shape: []int{2}, Data: "2 -4"}}},
		"a unit in the last place of a division": {Failed: -1, Values: map[string]Value{"v0": {DType: "float64", Shape: []int{2}, Data: "1 3"}, "v1": {DType: "float64", Shape: []int{}, Data: "3"}, "v2": {DType: "float64", Shape: []int{2}, Data: "0.3333333333333333 1"}}},
		"a gradient that loses a NaN": {Failed: -1, Values: map[string]Value{"v0": {DType: "float32", Shape: []int{2}, Data: "1 -2"}, "v1": {DType: "float32", Shape: []int{2}, Data: "2 -4"}},
			Grads: map[string]Value{"v0": {DType: "float32", Shape: []int{2}, Data: "nan 2"}}},
		"an exact value that is infinite": {Failed: -1, Values: map[string]Value{"v0": {DType: "float32", Shape: []int{1}, Data: "1.7014118346046923e+38"}, "v1": {DType: "float32", Shape: []int{1}, Data: "inf"}}},
		"a refusal that is missing":       {Failed: 1, Error: "RuntimeError: something that Cistern does not refuse"},
	}
	answers["the shape"] = answers["the type"]
	r := newRunner(t)
	for name, w := range wrong {
		t.Run(name, func(t *testing.T) {
			p := new(Program)
			require.NoError(t, json.Unmarshal([]byte(w.program), p))
			if name != "a refusal that is missing" {
				require.Nil(t, Compare(p, r.Run(p), answers[name]), "the right operation")
			}
			bad := *r
			if w.change != nil {
				bad.wrapOp, bad.wrap = w.op, w.change
			}
			d := Compare(p, bad.Run(p), answers[name])
			require.NotNil(t, d, "the wrong operation")
			t.Log(d)
		})
	}
}

// Gradients of values that differ as declared are others too; those of values that agree are not.
func TestCompare_TakesNoGradientsOfValuesThatDifferAsDeclared(t *testing.T) {
	p := new(Program)
	require.NoError(t, json.Unmarshal([]byte(`{"steps":[{"id":0,"op":"Input","dtype":"float32","base":[1],"data":"1"},{"id":1,"op":"RDivScalar","args":["v0",1]}]}`), p))
	answer := func(value, grad string) *Answer {
		return &Answer{Failed: -1, Values: map[string]Value{"v0": {DType: "float32", Shape: []int{1}, Data: "1"}, "v1": {DType: "float32", Shape: []int{1}, Data: value}},
			Grads: map[string]Value{"v0": {DType: "float32", Shape: []int{1}, Data: grad}}}
	}
	require.Nil(t, Compare(p, answer("1", "2"), answer("nan", "3")))
	require.NotNil(t, Compare(p, answer("1", "2"), answer("1", "3")))
	require.NotNil(t, Compare(p, answer("1", "2"), answer("2", "2")))
}

// Nor are those compared that a rule let pass although one is a number and the other is not.
func TestCompare_TakesNoGradientsOfNumbersThatOverflow(t *testing.T) {
	p := new(Program)
	require.NoError(t, json.Unmarshal([]byte(`{"steps":[{"id":0,"op":"Input","dtype":"float64","base":[1],"data":"1"},{"id":1,"op":"Tanh","args":["v0"]}]}`), p))
	answer := func(value, grad string) *Answer {
		return &Answer{Failed: -1, Values: map[string]Value{"v0": {DType: "float64", Shape: []int{1}, Data: "1"}, "v1": {DType: "float64", Shape: []int{1}, Data: value, Spread: "1e+290"}},
			Grads: map[string]Value{"v0": {DType: "float64", Shape: []int{1}, Data: grad}}}
	}
	require.Nil(t, Compare(p, answer("nan", "nan"), answer("1", "3")))
	require.NotNil(t, Compare(p, answer("1", "nan"), answer("1", "3")))
}
