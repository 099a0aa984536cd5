package excerpt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnce_LeavesOutThePathsThatAreNamedAlready(t *testing.T) {
	read := &fs.PathError{Op: "read", Path: "/data/x", Err: fs.ErrInvalid}
	link := &os.LinkError{Op: "rename", Old: "/data/x", New: "/data/y", Err: fs.ErrPermission}
	for want, err := range map[string]error{
		"read: invalid argument":                                        read,
		"the header: read: invalid argument":                            fmt.Errorf("the header: %w", read),
		"read: invalid argument; rename: permission denied":             errors.Join(read, link),
		"open /data/z: file does not exist":                             &fs.PathError{Op: "open", Path: "/data/z", Err: fs.ErrNotExist},
		"plain":                                                         errors.New("plain"),
		"open " + strings.Repeat("z", mostLong) + "...: file is closed": &fs.PathError{Op: "open", Path: strings.Repeat("z", 5000), Err: errors.New("file is closed")},
		"<nil>": nil,
	} {
		require.Equal(t, want, Once(err, "/data/x"))
	}
}
