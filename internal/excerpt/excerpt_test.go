package excerpt

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExcerpts_KeepShortTextsAndCutLongOnes(t *testing.T) {
	short, long := strings.Repeat("a", 100), strings.Repeat("a", 101)
	require.Equal(t, short, Of(short))
	require.Equal(t, short+"...", Of(long))
	require.Equal(t, `"`+short+`"`, Quote(short))
	require.Equal(t, `"`+short+`"...`, Quote(long))
	require.Equal(t, strings.Repeat("a", 1000), Long(strings.Repeat("a", 1000)))
	require.Equal(t, strings.Repeat("a", 1000)+"...", Long(strings.Repeat("a", 1001)))
	require.Empty(t, Of(""))
	require.Equal(t, "b, "+short+"..., c", List([]string{"b", long, "c"}))
}

func TestExcerpts_CutNoCharacterInTwo(t *testing.T) {
	for before := range 4 {
		text := strings.Repeat("x", before) + strings.Repeat("\U0001F600", 50)
		got := strings.TrimSuffix(Of(text), "...")
		require.True(t, strings.HasPrefix(text, got))
		require.Zero(t, (len(got)-before)%4)
		require.Greater(t, len(got), 96)
	}
	require.Len(t, Of(strings.Repeat("\x80", 200)), 96+3, "no character begins: any place will do")
}

func TestFile_CutsThePathAndKeepsTheCause(t *testing.T) {
	err := File(&fs.PathError{Op: "open", Path: strings.Repeat("d/", 1000), Err: fs.ErrNotExist})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Less(t, len(err.Error()), 1100)
	short := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	require.Same(t, short, File(short))
	other := errors.New("other")
	require.Equal(t, other, File(other))
	require.NoError(t, File(nil))
}
