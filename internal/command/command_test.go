package command

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCode_IsThatOfTheProgramUnlessOnlyTheEndFailed(t *testing.T) {
	require.Equal(t, 0, Code("p", 0))
	require.Equal(t, 2, Code("p", 2))
	for code, want := range map[int]int{0: 1, 1: 1, 2: 2} {
		var w bytes.Buffer
		require.Equal(t, want, after(errors.New("lost"), &w, "p", code))
		require.Equal(t, "p: lost\n", w.String())
	}
}

// interrupted is an error with an exit code.
type interrupted struct{ error }

func (interrupted) ExitCode() int { return 130 }

func TestRun_ExitCodesAndLines(t *testing.T) {
	wrong := errors.New("wrong")
	coded := fmt.Errorf("at the end: %w", interrupted{wrong})
	none := func() error { return nil }
	for _, c := range []struct {
		parse, work error
		code        int
		text        string
	}{{nil, nil, 0, ""}, {flag.ErrHelp, wrong, 0, ""}, {wrong, nil, 2, "p: wrong\n"}, {nil, wrong, 1, "p: wrong\n"}, {nil, coded, 130, "p: at the end: wrong\n"},
		{nil, errors.Join(wrong, wrong), 1, "p: wrong; wrong\n"}, {nil, Exit(3), 3, ""}, {nil, Exit(0), 0, ""}} {
		var w bytes.Buffer
		require.Equal(t, c.code, Run("p", &w, func() error { return c.parse }, func() error { return c.work }))
		require.Equal(t, c.text, w.String())
	}
	require.Zero(t, Run("p", nil, none, none))
	var w bytes.Buffer
	require.Equal(t, 2, Run("p", &w, func() error { return Parse(NewFlagSet("p", &w), []string{"-x"}) }, none))
	require.Equal(t, 1, strings.Count(w.String(), "-x"), w.String())
}
