package statedict

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// Rename gives the tensors of a file the names that f returns, and leaves out those of which that is empty. at is where the others are in
// file. A nil f changes nothing. Two tensors of one name are an error: which of them counts would be chance.
func Rename(file []Entry, f func(name string) string) (renamed []Entry, at []int, err error) {
	before := make(map[string]string, len(file))
	for i, e := range file {
		name := e.Name
		if f != nil {
			if name = f(e.Name); name == "" {
				continue
			}
			if other, twice := before[name]; twice {
				return nil, nil, fmt.Errorf("nn.Rename makes %s of both %s and %s of the file", excerpt.Quote(name), excerpt.Quote(other), excerpt.Quote(e.Name))
			}
			before[name] = e.Name
		}
		renamed, at = append(renamed, Entry{name, e.Shape}), append(at, i)
	}
	return renamed, at, nil
}
