//go:build invariants

// Package invariants says whether this build checks what the program believes about itself: go build -tags invariants.
package invariants

// Enabled is a constant, so that checks guarded by it cost nothing in ordinary builds.
const Enabled = true
