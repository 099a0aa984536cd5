package soak

import (
	"errors"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
)

// attempt calls f on a goroutine of its own, which f may end: then ended is false. thrown is what f panicked with.
func attempt(f func() error) (thrown any, ended bool, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { thrown = recover() }()
		err = f()
		ended = true
	}()
	<-done
	return thrown, ended, err
}

// Functions of the user's that do what they must not: the library says so, or passes their panic on, loses nothing and goes on.
func TestMisuse(t *testing.T) {
	for _, p := range places {
		for _, d := range deeds {
			t.Run(p.name+"/"+d.name, func(t *testing.T) {
				w := newWorld(t)
				u := &user{world: w}
				thrown, ended, err := attempt(func() error { return p.run(u, &d) })
				late, released, _ := attempt(func() error { u.g.Release(); return nil }) // which calls Packed.Release
				if p.name == "Packed.Release" {
					thrown, ended = late, ended && released
				} else {
					require.True(t, released, "%v", late)
				}
				require.True(t, u.called, "the function was not called: %v", err)
				requireOutcome(t, p.name, d.name, err, thrown, ended)
				w.requireWhole()
			})
		}
	}
}

func requireOutcome(t *testing.T, place, deed string, err error, thrown any, ended bool) {
	t.Helper()
	switch {
	case strings.Contains(deed, "panics") && strings.HasPrefix(place, "Dataset.Batch"):
		var caught *data.PanicError // a loader's workers have nobody else to tell, and without workers it says the same
		require.ErrorAs(t, err, &caught)
		require.Equal(t, panicked, caught.Value)
		return
	case strings.Contains(deed, "panics"):
		require.Equal(t, panicked, thrown)
		return
	case deed == "ends its goroutine":
		require.Nil(t, thrown)
		require.False(t, ended)
		return
	}
	require.Nil(t, thrown, "%v", thrown)
	require.True(t, ended)
	require.True(t, err == nil || typed(err), "%T: %v", err, err)
	switch deed {
	case "nothing wrong", "keeps variables", "works on another goroutine", "takes its time", "runs the memory out":
		if !slices.Contains(failing, place) {
			require.NoError(t, err)
		}
	case "an error", "an error and a tensor":
		if !slices.Contains(deaf, place) {
			require.ErrorIs(t, err, errUser)
		}
	case "a zero tensor", "a released tensor", "another device":
		if !slices.Contains(plain, place) {
			require.Error(t, err)
		}
	case "releases the graph":
		if !slices.Contains(plain, place) && place != "Initializer" {
			require.Error(t, err)
		}
	}
}

// typed reports whether an error is, or wraps, one of an exported type of the library's, or a known sentinel.
func typed(err error) bool {
	if errors.Is(err, errUser) || errors.Is(err, autograd.ErrNilVariable) {
		return true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		of := reflect.TypeOf(err)
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if strings.HasPrefix(of.PkgPath(), "github.com/cistern-ml/cistern/") && token.IsExported(of.Name()) {
			return true
		}
	}
	return false
}
