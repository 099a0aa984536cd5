package driver

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// fileAt is the file of which a part is mapped at an address: that of the library which has a function there. It is "" if there is
// none.
func fileAt(address uintptr) string {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to); n < 2 || address < from || address >= to {
			continue
		}
		_, path, _ := strings.Cut(lines.Text(), "/") // the five columns before it have none
		if path == "" {
			return ""
		}
		return "/" + path
	}
	return ""
}
