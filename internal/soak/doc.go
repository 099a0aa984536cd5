// Package soak has tests alone, of the whole library as long-running programs use it. soak_test.go trains for a while, with all that
// goes wrong on the way, and looks for what grows. misuse_test.go gives the library functions that do what they must not.
package soak
