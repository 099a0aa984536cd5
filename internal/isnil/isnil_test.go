package isnil

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhy_NamesWhatIsNil(t *testing.T) {
	require.Equal(t, "the reader is nil", Why("reader", nil))
	require.Equal(t, "the reader is a nil *os.File", Why("reader", io.Reader((*os.File)(nil))))
	for _, there := range []any{os.Stdin, 0, io.Discard, []int(nil), map[string]int(nil)} {
		require.Empty(t, Why("reader", there), "%T", there)
		require.False(t, Value(there), "%T", there)
	}
}
