package statedict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/statedict"
	"github.com/cistern-ml/cistern/tensor"
)

func parameter(name string, shape ...int) *autograd.Parameter {
	return autograd.DeclareParameter(name, nil, shape...)
}

func TestNew_PairsByNameInTheOrderOfTheFile(t *testing.T) {
	a, b := parameter("a", 2), parameter("b", 3)
	m := statedict.New([]statedict.Named{{"a", a}, {"b", b}}, []statedict.Entry{{Name: "b", Shape: tensor.Shape{3}}, {Name: "a", Shape: tensor.Shape{2}}})
	require.True(t, m.Fits())
	require.True(t, m.FitsInPart(len(m.To)))
	require.Equal(t, []*autograd.Parameter{b, a}, m.To)
}

func TestNew_ListsEveryDifference(t *testing.T) {
	a, b, c := parameter("a", 2), parameter("b", 3), parameter("c", 4)
	m := statedict.New([]statedict.Named{{"a", a}, {"b", b}, {"c", c}},
		[]statedict.Entry{{Name: "x", Shape: tensor.Shape{1}}, {Name: "b", Shape: tensor.Shape{3, 1}}, {Name: "c", Shape: tensor.Shape{4}}})
	require.False(t, m.Fits())
	require.False(t, m.FitsInPart(1), "a shape is another")
	require.Equal(t, []*autograd.Parameter{nil, b, c}, m.To)
	require.Equal(t, []statedict.Named{{"a", a}}, m.Missing)
	require.Equal(t, []statedict.Entry{{Name: "x", Shape: tensor.Shape{1}}}, m.Unexpected)
	require.Equal(t, []statedict.Other{{statedict.Named{"b", b}, tensor.Shape{3, 1}}}, m.Shapes)
	missing, unexpected := m.Names()
	require.Equal(t, [2][]string{{"a"}, {"x"}}, [2][]string{missing, unexpected})
}

func TestNew_TakesWhatIsSharedUnderAnyOfItsNames(t *testing.T) {
	p := parameter("p", 2)
	model := []statedict.Named{{"in", p}, {"out", p}}
	for _, names := range [][]string{{"in"}, {"out"}, {"out", "in"}} {
		var file []statedict.Entry
		for _, n := range names {
			file = append(file, statedict.Entry{Name: n, Shape: tensor.Shape{2}})
		}
		require.True(t, statedict.New(model, file).Fits(), names)
	}
	require.Equal(t, []statedict.Named{{"in", p}}, statedict.New(model, nil).Missing, "once, under its first name")
}

func TestNew_RefusesANameThatTwoParametersHave(t *testing.T) {
	m := statedict.New([]statedict.Named{{"a", parameter("a")}, {"a", parameter("a")}}, []statedict.Entry{{Name: "a", Shape: nil}})
	require.Equal(t, "a", m.Twice)
	require.False(t, m.Fits())
	require.False(t, m.FitsInPart(len(m.To)))
}

func TestFitsInPart_WantsSomethingThatBothHave(t *testing.T) {
	model := []statedict.Named{{"a", parameter("a", 2)}}
	for want, file := range map[bool][]statedict.Entry{
		true:  {{Name: "x", Shape: nil}, {Name: "a", Shape: tensor.Shape{2}}},
		false: {{Name: "model.a", Shape: tensor.Shape{2}}},
	} {
		m := statedict.New(model, file)
		require.False(t, m.Fits())
		require.Equal(t, want, m.FitsInPart(len(m.To)))
	}
	require.True(t, statedict.New(model, nil).FitsInPart(0), "an empty file hides nothing")
}
