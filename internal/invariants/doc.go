// Package invariants switches on checks that are too dear for ordinary builds: `go test -tags invariants ./...`. Code
// under `if invariants.Enabled` costs nothing otherwise, because Enabled is a constant.
package invariants
