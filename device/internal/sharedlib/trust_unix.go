//go:build unix

package sharedlib

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// distrust says why a process of user uid should not load a file that it found by itself, and "" if it may. What root runs must be root's:
// who else owns the file, or a folder on the way to it, could put other code there.
func distrust(path string, uid int) string {
	if uid != 0 {
		return ""
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err.Error()
	}
	for at := real; ; at = filepath.Dir(at) {
		if why := foreign(at); why != "" {
			return why
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// foreign says why a file or folder is not root's alone.
func foreign(at string) string {
	info, err := os.Lstat(at)
	if err != nil {
		return err.Error()
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 {
		return fmt.Sprintf("%s belongs to user %d, and this process is root's", at, s.Uid)
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Sprintf("everybody may write to %s, and this process is root's", at)
	}
	return ""
}
