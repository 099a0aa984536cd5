package checkpoint_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
)

// best is what a program may know of its best model.
type best struct {
	Loss    float64            `json:"loss"`
	Low     float32            // -Inf
	History []float64          `json:"history,omitempty"`
	ByName  map[string]float64 `json:"by_name,omitempty"`
	ByStep  map[int]*float64
	Any     any
	Pair    [2]float64
	Inner   struct{ Deep *float64 }
	Text    string
	inner
	hidden float64 `json:"-"`
}

type inner struct{ Embedded float64 }

// sent writes v and reads it into another variable.
func sent[T any](t *testing.T, v, into *T) {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, checkpoint.New().Add("v", checkpoint.Value(v)).Write(context.Background(), &file))
	require.NoError(t, checkpoint.New().Add("v", checkpoint.Value(into)).Read(context.Background(), &file))
}

func TestValue_KeepsNumbersThatJSONDoesNotHave(t *testing.T) {
	for _, x := range []float64{math.Inf(1), math.Inf(-1), 3, math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64} {
		got := 5.0
		sent(t, &x, &got)
		require.Equal(t, math.Float64bits(x), math.Float64bits(got), "%v", x)
	}
	nan, got := math.NaN(), 5.0
	sent(t, &nan, &got)
	require.True(t, math.IsNaN(got))
	half, gotHalf := float32(math.Inf(-1)), float32(0)
	sent(t, &half, &gotHalf)
	require.Equal(t, half, gotHalf)
	var some, gotSome any = []any{math.Inf(1), "x", struct{ X float64 }{nan}}, nil
	sent(t, &some, &gotSome)
	require.Equal(t, fmt.Sprint([]any{math.Inf(1), "x", map[string]any{"X": nan}}), fmt.Sprint(gotSome))
}

func TestValue_KeepsThemWhereverTheyAre(t *testing.T) {
	inf, low := math.Inf(1), math.Inf(-1)
	v := best{
		Loss: inf, Low: float32(low), History: []float64{1, inf, low}, ByName: map[string]float64{"a/b": inf, "": 2, "c": low},
		ByStep: map[int]*float64{7: &inf, 8: nil}, Any: map[string]any{"x": inf}, Pair: [2]float64{0, low}, Text: "Inf",
		inner: inner{inf}, hidden: 1,
	}
	v.Inner.Deep = &low
	got := best{hidden: 3}
	sent(t, &v, &got)
	require.Equal(t, 3.0, got.hidden, "what is not written stays")
	v.hidden = 3
	require.Equal(t, v, got)
	require.Equal(t, math.Inf(1), inf, "what was saved stays as it was")
	require.Equal(t, []float64{1, inf, low}, v.History)

	v.Loss = 1
	v.History = []float64{1} // and with other numbers from the same variable
	sent(t, &v, &got)
	require.Equal(t, v, got)
}

func TestValue_ThatNoJSONKeeps_IsAnErrorOfTheSave(t *testing.T) {
	var wrong *checkpoint.SectionError
	loop := map[string]any{"x": math.Inf(1)}
	loop["loop"] = loop
	for name, s := range map[string]checkpoint.Section{
		"a channel": checkpoint.Value(new(chan int)),
		"itself":    checkpoint.Value(&loop),
	} {
		err := checkpoint.New().Add("v", s).Write(context.Background(), new(bytes.Buffer))
		require.ErrorAs(t, err, &wrong, name)
		require.Equal(t, "v", wrong.Section)
	}
}

func TestValue_OfADamagedList_IsAFormatError(t *testing.T) {
	var format *checkpoint.FormatError
	for _, text := range []string{
		`{"cistern.nonfinite":[{"path":["9"],"value":"NaN"}],"value":[0]}`,
		`{"cistern.nonfinite":[{"path":["0","0"],"value":"NaN"}],"value":[0]}`,
		`{"cistern.nonfinite":[{"path":[],"value":"NaN"}],"value":[0]}`,
		`{"cistern.nonfinite":[{"path":["0"],"value":"3"}],"value":[0]}`,
		`{"cistern.nonfinite":[{"path":["-1"],"value":"NaN"}],"value":[0]}`,
		`{"cistern.nonfinite":[]}`, `{"cistern.nonfinite":7,"value":[]}`,
	} {
		v := []float64{4}
		require.ErrorAs(t, prepare(checkpoint.Value(&v), text), &format, text)
		require.Equal(t, []float64{4}, v)
	}
}

// prepare gives a section JSON, and makes the change.
func prepare(s checkpoint.Section, text string) error {
	change, err := s.Prepare(checkpoint.Content{JSON: []byte(text)})
	if err == nil {
		err = change.Apply()
	}
	return err
}

// A file that is sound and a program with another type.
func TestValue_OfAnotherType_IsASectionError(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string][2]checkpoint.Section{
		"a struct for a number":    {checkpoint.Value(&struct{ X int }{3}), checkpoint.Value(new(int))},
		"a string for a number":    {checkpoint.Value(new(string)), checkpoint.Value(new(float64))},
		"an infinity for a string": {checkpoint.Value(&inf), checkpoint.Value(new(string))},
		"another field":            {checkpoint.Value(&struct{ X float64 }{inf}), checkpoint.Value(new(struct{ Y float64 }))},
	} {
		var file bytes.Buffer
		require.NoError(t, checkpoint.New().Add("v", c[0]).Write(context.Background(), &file))
		err := checkpoint.New().Add("v", c[1]).Read(context.Background(), &file)
		var section *checkpoint.SectionError
		require.ErrorAs(t, err, &section, name)
		require.ErrorContains(t, err, "what the file has is no ", name)
		require.NotContains(t, err.Error(), "sound", name)
	}
}

// A value that looks like one with a list of numbers is one that a program may have.
func TestValue_ThatLooksLikeAList_ComesBack(t *testing.T) {
	for _, v := range []any{
		map[string]any{"cistern.nonfinite": []any{}, "value": 3.0},
		map[string]any{"cistern.nonfinite": 7.0},
		map[string]any{"cistern.nonfinite": []any{map[string]any{"path": []any{}, "value": "NaN"}}, "value": 0.0},
		map[string]any{"cistern.nonfinite": []any{}, "value": math.Inf(1)},
		[]any{map[string]any{"cistern.nonfinite": []any{}, "value": math.Inf(-1)}},
	} {
		var got any
		sent(t, &v, &got)
		require.Equal(t, v, got)
	}
}

// unsorted has fields in another order than that of their names, which maps have in JSON.
type unsorted struct {
	Z float64
	A float64 `json:"a"`
	M []float32
}

func TestValue_KeepsThemInAStructInAnInterface_WhateverTheOrderOfItsFields(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	type holder struct {
		Any any
		Num float64
	}
	for name, in := range map[string]any{
		"struct":           unsorted{Z: nan, A: inf, M: []float32{1, float32(inf)}},
		"pointer":          &unsorted{Z: 1, A: nan},
		"slice of structs": []unsorted{{Z: nan, A: 2}, {Z: 3, A: inf}},
		"nested":           map[string]any{"k": unsorted{Z: inf}, "b": []any{unsorted{A: nan}, nan}},
		"struct of any":    holder{Any: unsorted{Z: nan, A: -inf}, Num: inf},
	} {
		v, got := holder{Any: in, Num: nan}, holder{}
		sent(t, &v, &got)
		require.True(t, math.IsNaN(got.Num), name)
		if name == "struct" {
			require.Equal(t, fmt.Sprint(map[string]any{"Z": nan, "a": inf, "M": []any{1.0, inf}}), fmt.Sprint(got.Any))
		}
		again := holder{}
		sent(t, &got, &again) // what was read is kept as well
		require.Equal(t, fmt.Sprint(got), fmt.Sprint(again), name)
	}
}
