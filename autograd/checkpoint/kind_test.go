package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// amps has the fields of amp.State, which this package must not import.
type amps struct {
	Scale    float64 `json:"scale"`
	Growth   float64 `json:"growth_factor"`
	Backoff  float64 `json:"backoff_factor"`
	Interval int     `json:"growth_interval"`
	Tracker  int     `json:"_growth_tracker"`
}

// GradScaler takes any state, as a disabled amp.GradScaler does.
type GradScaler struct{ amps }

func (s *GradScaler) State() (amps, error)    { return s.amps, nil }
func (s *GradScaler) CheckState(amps) error   { return nil }
func (s *GradScaler) LoadState(st amps) error { s.amps = st; return nil }

type progress struct{ Epoch int }

// everyKind is a section of each kind, by the name that errors give it.
func everyKind(t *testing.T) map[string]checkpoint.Section {
	model := nn.Linear(2, 1)
	require.NoError(t, model.To(host.Default(), nn.Seed(1)))
	t.Cleanup(model.Release)
	sgd, adam := optim.SGD(model.Parameters(), optim.Momentum(0.9)), optim.Adam(model.Parameters())
	t.Cleanup(sgd.Release)
	t.Cleanup(adam.Release)
	for _, o := range []*optim.Grouped{sgd, adam} {
		for _, p := range model.Parameters() {
			g, err := tensor.Ones(p.Tensor().Exec(), tensor.Float32, p.Shape()...)
			require.NoError(t, err)
			require.NoError(t, p.SetGrad(g))
		}
		require.NoError(t, o.Step())
		o.ZeroGrad()
	}
	plateau := optim.ReduceLROnPlateau(adam)
	require.NoError(t, plateau.Step(3))
	step := 7
	return map[string]checkpoint.Section{
		"a module":          checkpoint.Module(model),
		"a module of none":  checkpoint.Module(nn.ReLU()),
		"SGD":               checkpoint.Optimizer(sgd),
		"Adam":              checkpoint.Optimizer(adam),
		"StepLR":            checkpoint.State(optim.StepLR(sgd, 2, 0.5)),
		"CosineAnnealingLR": checkpoint.State(optim.CosineAnnealingLR(sgd, 9, 0)),
		"ReduceLROnPlateau": checkpoint.State(plateau),
		"GradScaler":        checkpoint.State(&GradScaler{amps{65536, 2, 0.5, 2000, 3}}),
		"a generator":       checkpoint.Generator(tensor.NewGenerator(5)),
		"a variable":        checkpoint.Value(&progress{3}),
		"a number":          checkpoint.Value(&step),
		"a map":             checkpoint.Value(&map[string]float64{"seed": 1, "offset": 2}),
		"any":               checkpoint.Value(new(any)),
		"tensors":           checkpoint.Tensors(map[string]*tensor.Tensor{"mean": model.Weight.Tensor()}),
		"one tensor":        checkpoint.Tensor(model.Bias.Tensor()),
		"no tensors":        checkpoint.Tensors(nil),
	}
}

// takesAny are variables that take other variables' values: JSON has nothing that tells them apart.
func takesAny(from, to string) bool {
	values := map[string]bool{"a variable": true, "a number": true, "a map": true, "any": true}
	return values[from] && (to == "any" || from == "a variable" && to == "a map" || from == "any" && to == "a map")
}

// A section of every kind refuses what each of the others wrote, and is as it was: also in files without kinds, by its fields.
func TestSections_RefuseTheStateOfEveryOtherKind(t *testing.T) {
	all := everyKind(t)
	saved := map[string]checkpoint.Content{}
	for name, s := range all {
		c, err := s.Save()
		require.NoError(t, err, name)
		saved[name] = c
	}
	for to, s := range all {
		for from, other := range all {
			if from == to || takesAny(from, to) {
				continue
			}
			var file bytes.Buffer
			require.NoError(t, checkpoint.New().Add("x", other).Write(t.Context(), &file))
			err := checkpoint.New().Add("x", s).Read(t.Context(), &file)
			require.Error(t, err, "%s into %s", from, to)
			require.Contains(t, err.Error(), "checkpoint: x: ", "%s into %s", from, to)
			same(t, s, saved[to])
			kindless := saved[from]
			kindless.Kind = ""
			if to == "any" || to == "a map" || from == "a module" || from == "a module of none" || from == "no tensors" || to == "no tensors" {
				continue // what takes anything cannot tell without a kind
			}
			if from == "any" && to == "a module of none" || from == "a map" && to == "a generator" {
				continue // both have nothing, or the same
			}
			_, err = s.Prepare(kindless)
			require.Error(t, err, "%s into %s, without a kind", from, to)
		}
	}
}

// same checks that a section saves what it saved before.
func same(t *testing.T, s checkpoint.Section, before checkpoint.Content) {
	t.Helper()
	now, err := s.Save()
	require.NoError(t, err)
	require.Equal(t, string(before.JSON), string(now.JSON))
	require.Equal(t, before.Kind, now.Kind)
}

// Errors name both.
func TestSections_NameWhatTheStateIsOf(t *testing.T) {
	all := everyKind(t)
	for _, c := range [][2]string{
		{"StepLR", "ReduceLROnPlateau"}, {"ReduceLROnPlateau", "CosineAnnealingLR"}, {"GradScaler", "a generator"}, {"StepLR", "a generator"},
		{"a generator", "GradScaler"}, {"SGD", "StepLR"}, {"StepLR", "SGD"}, {"a module", "Adam"}, {"Adam", "a module"}, {"a variable", "a generator"},
		{"ReduceLROnPlateau", "GradScaler"}, {"a generator", "a variable"}, {"tensors", "a module"}, {"a module", "tensors"},
	} {
		var file bytes.Buffer
		require.NoError(t, checkpoint.New().Add("x", all[c[0]]).Write(t.Context(), &file))
		err := checkpoint.New().Add("x", all[c[1]]).Read(t.Context(), &file)
		var section *checkpoint.SectionError
		var kind *checkpoint.KindError
		require.ErrorAs(t, err, &section)
		require.ErrorAs(t, err, &kind)
		require.Equal(t, checkpoint.KindError{Found: c[0], Wanted: c[1]}, *kind)
		require.EqualError(t, err, "checkpoint: x: it is the state of "+c[0]+", not of "+c[1])
	}
}

// What json.Unmarshal makes zeros of, or leaves out, is an error and changes nothing.
func TestValue_RefusesFieldsThatOnlyOneHas(t *testing.T) {
	type deep struct {
		Epoch int
		Best  struct {
			Loss float64 `json:"loss"`
		}
		List  []progress
		ByKey map[string]progress
		Pair  [2]int
		Ptr   *progress
		Later int `json:",omitempty"`
		progress2
	}
	good := `{"Epoch":1,"Best":{"loss":2},"List":[{"Epoch":1}],"ByKey":{"a":{"Epoch":1}},"Pair":[1,2],"Ptr":{"Epoch":4},"Deeper":5}`
	before := deep{Epoch: 9, Later: 4}
	for text, want := range map[string]string{
		`{}`:            `the file has no "Epoch"`,
		`null`:          "null, want a",
		`{"epoch":1}`:   `the file has no "Epoch"`,
		`{"Epoch":1}`:   `the file has no "Best"`,
		`{"Nothing":1}`: `the file has no "Epoch"`,
		replaced(good, `"Epoch":1,`, `"Epoch":null,`):      "Epoch: null, want a int",
		replaced(good, `{"loss":2}`, `{}`):                 `Best: the file has no "loss"`,
		replaced(good, `{"loss":2}`, `{"loss":2,"x":1}`):   `Best: the file has "x"`,
		replaced(good, `[{"Epoch":1}]`, `[{}]`):            `List[0]: the file has no "Epoch"`,
		replaced(good, `{"a":{"Epoch":1}}`, `{"a":{}}`):    `ByKey.a: the file has no "Epoch"`,
		replaced(good, `[1,2]`, `[1]`):                     "Pair: 1 elements, want 2",
		replaced(good, `[1,2]`, `[1,2,3]`):                 "Pair: 3 elements, want 2",
		replaced(good, `[1,2]`, `[1,null]`):                "Pair[1]: null",
		replaced(good, `{"Epoch":4}`, `{"Epoch":4,"b":1}`): `Ptr: the file has "b"`,
		replaced(good, `,"Deeper":5`, ``):                  `the file has no "Deeper"`,
		replaced(good, `"Deeper"`, `"deeper"`):             `the file has no "Deeper"`,
	} {
		v := before
		require.ErrorContains(t, prepare(checkpoint.Value(&v), text), want, text)
		require.Equal(t, before, v)
	}
	v := before
	require.NoError(t, prepare(checkpoint.Value(&v), good))
	require.Zero(t, v.Later, "a field that is not written when it is empty was empty")
	require.NoError(t, prepare(checkpoint.Value(&v), replaced(good, `{"Epoch":4}`, `null`)))
	require.Nil(t, v.Ptr)
}

type progress2 struct{ Deeper int }

func replaced(text, old, now string) string {
	return string(bytes.Replace([]byte(text), []byte(old), []byte(now), 1))
}

// lenient reads what it likes.
type lenient struct{ Epoch int }

func (l *lenient) UnmarshalJSON(text []byte) error {
	type plain lenient
	return json.Unmarshal(text, (*plain)(l))
}

func TestValue_OfATypeThatReadsItself_ReadsWhatItLikes(t *testing.T) {
	v := lenient{3}
	require.NoError(t, prepare(checkpoint.Value(&v), `{"Other":1}`))
}
