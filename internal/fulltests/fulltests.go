// Package fulltests says how much tests do. "go test ./..." is for everybody who has changed something, on any machine: some minutes of a
// processor, from an empty cache too. What takes longer and finds more runs in full tests, which are a step of .ci/run.
package fulltests

import "os"

// Variable is the environment variable that makes tests run in full if it is "1".
const Variable = "CISTERN_FULL_TESTS"

// Enabled reports whether tests run in full.
func Enabled() bool { return os.Getenv(Variable) == "1" }

// Or returns full in full tests, and else usual: counts of cases, sizes.
func Or(full, usual int) int {
	if Enabled() {
		return full
	}
	return usual
}
