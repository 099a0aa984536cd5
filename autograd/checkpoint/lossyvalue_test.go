package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
)

// initial is a key of which the text is the first byte.
type initial struct{ word string }

func (i initial) MarshalText() ([]byte, error) { return []byte(i.word[:1]), nil }
func (i *initial) UnmarshalText(b []byte) error {
	i.word = string(b)
	return nil
}

// stamped has the methods of the time only, by accident.
type stamped struct {
	time.Time
	Step int
}

// Both is what the next types embed.
type Both struct{ Loss float64 }

type shadowing struct {
	Both
	Loss float64
}

type twoMethods struct {
	time.Time
	big.Int
}

func TestValue_WhoseValuesJSONWouldAlter_IsRefusedByWrite(t *testing.T) {
	large := int64(1)<<53 + 1
	for name, c := range map[string]struct {
		value      checkpoint.Section
		path, says string
	}{
		"a string":                  {valueOf("a\xffb"), "", `"a\xffb" is not UTF-8`},
		"strings":                   {valueOf(struct{ Names []string }{[]string{"", "\xff"}}), "Names[1]", "not UTF-8"},
		"an array of strings":       {valueOf([2]string{1: "\xff"}), "[1]", "not UTF-8"},
		"behind a pointer":          {valueOf(&[]string{"\xff"}), "[0]", "not UTF-8"},
		"in an any":                 {valueOf[any](map[string]any{"x": []any{"\xff"}}), "x[0]", "not UTF-8"},
		"a key":                     {valueOf(map[string]int{"a\xff": 1, "a\xfe": 2}), "", `the key "a\xfe" is not UTF-8`},
		"a key deep down":           {valueOf(struct{ M []map[string]bool }{[]map[string]bool{{"\xff": true}}}), "M[0]", "the key"},
		"an entry":                  {valueOf(map[int]string{7: "\xff"}), "7", "not UTF-8"},
		"keys that become one":      {valueOf(map[initial]int{{"ab"}: 1, {"ac"}: 2}), "", `two keys are both "a"`},
		"a text that is not UTF-8":  {valueOf(struct{ I initial }{initial{"\xff"}}), "I", "not UTF-8"},
		"JSON that is not UTF-8":    {valueOf(json.RawMessage("\"\xff\"")), "", "not UTF-8"},
		"an int in an any":          {valueOf[any](large), "", "9007199254740993"},
		"a negative one":            {valueOf[any](map[string]any{"n": -large}), "n", "-9007199254740993"},
		"a uint64":                  {valueOf([]any{uint64(math.MaxUint64)}), "[0]", "18446744073709551615"},
		"a uintptr":                 {valueOf[any](struct{ P uintptr }{uintptr(large)}), "P", "9007199254740993"},
		"a list of them":            {valueOf[any]([]int64{1, large}), "[1]", "9007199254740993"},
		"a map of them":             {valueOf[any](map[string]int64{"x": large}), "x", "9007199254740993"},
		"a number as text":          {valueOf[any](json.Number("9007199254740993")), "", "9007199254740993"},
		"a big one with methods":    {valueOf[any](big.NewInt(large)), "", "9007199254740993"},
		"a small one with methods":  {valueOf[any](json.RawMessage("[1e-400]")), "", "1e-400"},
		"methods that are promoted": {valueOf(stamped{time.Unix(3, 0), 5}), "Step", "forget it"},
		"two embedded with methods": {valueOf(twoMethods{}), "Time.wall", "not exported"},
		"one name twice": {valueOf(struct {
			A int `json:"B"`
			B int
		}{}), "B", `A of struct`},
		"a field that hides another": {valueOf(shadowing{}), "Loss", "same name"},
		"two of one depth": {valueOf(struct {
			Both
			A struct{ shadowing }
		}{}), "A.shadowing.Loss", "same name"},
	} {
		var bad *checkpoint.ValueError
		err := checkpoint.New().Add("v", c.value).Write(context.Background(), new(bytes.Buffer))
		require.ErrorAs(t, err, &bad, name)
		require.Equal(t, c.path, bad.Path, name)
		require.Contains(t, bad.Detail, c.says, name)
	}
}

func valueOf[T any](v T) checkpoint.Section { return checkpoint.Value(&v) }

func TestValue_WithNumbersThatAreFloats_IsKept(t *testing.T) {
	for _, v := range []any{
		int64(1) << 62, uint64(1) << 63, int64(1)<<53 + 2, -5, []int64{3}, float32(0.1), 0.1, math.MaxFloat64, math.SmallestNonzeroFloat64,
		math.Copysign(0, -1), json.Number("1.50"), json.Number("0e5"), json.RawMessage(`{"x":[0.1,-0.0]}`), big.NewInt(1 << 60), "\u2028<\x00>\ufffd",
	} {
		var got any
		sent(t, &v, &got)
	}
	large, got := struct{ N, M int64 }{math.MaxInt64, math.MinInt64}, struct{ N, M int64 }{}
	sent(t, &large, &got)
	require.Equal(t, large, got)
	exact, gotExact := map[uint64]json.Number{math.MaxUint64: "9007199254740993"}, map[uint64]json.Number(nil)
	sent(t, &exact, &gotExact)
	require.Equal(t, exact, gotExact)
	raw, gotRaw := []byte("a\xffb"), []byte(nil)
	sent(t, &raw, &gotRaw)
	require.Equal(t, raw, gotRaw)
	named, gotNamed := struct{ Time time.Time }{time.Unix(3, 0).UTC()}, struct{ Time time.Time }{}
	sent(t, &named, &gotNamed)
	require.Equal(t, named, gotNamed)
}
