//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package atomicfile

import (
	"errors"
	"os"
)

// closeFirst says that an open file cannot be renamed.
const closeFirst = true

func lock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// syncDir has nothing to do: folders cannot be synced.
func syncDir(*os.File) error { return nil }
