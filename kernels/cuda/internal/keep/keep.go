// Package keep is how tests tell package cuda that they will open many devices in turn.
package keep

import "sync/atomic"

// Images makes unpacked modules stay until the process ends. Programs load the kernels of a module once, and what they were loaded from goes with
// the next collection; tests, in which each device loads them again, would spend a third of their time unpacking.
var Images atomic.Bool
