package excerpt

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Once is the text of an error without the paths that the sentence around it names already, as "no such file or directory" or "read: is
// a directory" is of "read /data/x: is a directory". Other paths are as Long has them. Errors that were joined are on one line.
func Once(err error, named ...string) string {
	if err == nil {
		return "<nil>"
	}
	text := err.Error()
	switch e := err.(type) {
	case *fs.PathError:
		return withoutPath(e.Op, e.Path, Once(e.Err, named...), named)
	case *os.LinkError:
		return withoutPath(e.Op, e.Old, Once(e.Err, named...), named)
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return strings.ReplaceAll(text, inner.Error(), Once(inner, named...))
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if whole := inner.Error(); whole != "" {
				text = strings.ReplaceAll(text, whole, Once(inner, named...))
			}
		}
		return strings.ReplaceAll(text, "\n", "; ")
	}
	return text
}

func withoutPath(op, path, why string, named []string) string {
	if !slices.Contains(named, path) {
		return op + " " + Long(path) + ": " + why
	}
	return op + ": " + why
}
